//! Portico's auth inside Envoy: what the host calls, and which request it is about. Decisions are in `core.zig`.
//!
//! A trap here ends the request and not more, if the host is told so (FAIL_RELOAD). There is one of these for every worker.

const std = @import("std");
const core = @import("core.zig");
const host = @import("host.zig");
const Setup = @import("setup.zig").Setup;
const Action = @import("stream.zig").Action;
const Stream = @import("stream.zig").Stream;

pub const panic = std.debug.no_panic;

/// So soon after the start keys are fetched, before anybody needs them.
const first_tick_ms = 100;
const tick_ms = 10_000;

const gpa = host.gpa;
const Roots = std.AutoHashMapUnmanaged(u32, ?*Setup);
const Streams = std.AutoHashMapUnmanaged(u32, *Stream);
var roots: Roots = .empty;
var streams: Streams = .empty;

export fn proxy_abi_version_0_2_1() void {}

export fn proxy_on_memory_allocate(size: usize) ?[*]u8 {
    const found = gpa.alloc(u8, size) catch return null;
    return found.ptr;
}

export fn proxy_on_vm_start(_: u32, _: u32) u32 {
    return 1;
}

export fn proxy_on_context_create(id: u32, parent: u32) void {
    if (parent == 0) {
        if (!roots.contains(id)) roots.put(gpa, id, null) catch {};
        return;
    }
    const setup = (roots.get(parent) orelse return) orelse return;
    if (streams.contains(id)) return;
    const stream = gpa.create(Stream) catch return;
    stream.* = .init(setup);
    streams.put(gpa, id, stream) catch end(stream);
}

export fn proxy_on_configure(root: u32, size: usize) u32 {
    const place = roots.getPtr(root) orelse return 0;
    const given = host.buffer(.configuration, size) orelse return 0;
    defer given.free();
    const setup = Setup.init(given.data) orelse return 0;
    if (place.*) |old| old.replace();
    place.* = setup;
    host.tickEvery(first_tick_ms);
    return 1;
}

export fn proxy_on_tick(root: u32) void {
    const setup = (roots.get(root) orelse return) orelse return;
    host.tickEvery(tick_ms);
    const now = host.now();
    for (setup.guard.rings) |*ring| ring.refresh(now);
    fetch(setup);
}

/// A request that is unknown here is one that there was no memory for, or no configuration.
export fn proxy_on_request_headers(id: u32, _: u32, ends: u32) Action {
    const stream = streams.get(id) orelse {
        host.refuse();
        return .wait;
    };
    const action = stream.onHeaders(ends != 0);
    fetch(stream.setup);
    return stream.done orelse action;
}

export fn proxy_on_request_body(id: u32, size: usize, ends: u32) Action {
    const stream = streams.get(id) orelse return .wait;
    return stream.onBody(size, ends != 0);
}

/// The body has ended before them.
export fn proxy_on_request_trailers(id: u32, _: u32) Action {
    const stream = streams.get(id) orelse return .wait;
    return stream.onTrailers();
}

/// The host says this to the root, whoever asked.
export fn proxy_on_http_call_response(root: u32, call: u32, _: u32, size: usize, _: u32) void {
    const document: ?host.Given = if (isOk()) host.buffer(.call_response_body, size) else null;
    defer if (document) |given| given.free();
    const setup = asker(root, call) orelse return;
    const issuer = setup.answered(call, if (document) |given| given.data else null, host.now()) orelse return;
    wake(setup, issuer);
}

/// It may have been replaced meanwhile; then those who wait still have it.
fn asker(root: u32, call: u32) ?*Setup {
    if (roots.get(root) orelse null) |setup| if (setup.asks(call)) return setup;
    var all = streams.valueIterator();
    while (all.next()) |stream| if (stream.*.setup.asks(call)) return stream.*.setup;
    return null;
}

export fn proxy_on_done(_: u32) u32 {
    return 1;
}

export fn proxy_on_delete(id: u32) void {
    if (streams.fetchRemove(id)) |found| end(found.value);
    if (roots.fetchRemove(id)) |found| if (found.value) |setup| setup.replace();
}

fn end(stream: *Stream) void {
    stream.deinit();
    gpa.destroy(stream);
}

fn isOk() bool {
    const given = host.headers(.call_response_headers) orelse return false;
    defer given.free();
    var pairs: host.Pairs = .of(given.data);
    while (pairs.next()) |pair| if (std.mem.eql(u8, pair[0], ":status")) return std.mem.eql(u8, pair[1], "200");
    return false;
}

/// Keys that nobody can be asked for have not come.
fn fetch(setup: *Setup) void {
    while (setup.fetch(host.now())) |issuer| wake(setup, issuer);
}

/// Those who wait for these keys. Nobody comes or goes meanwhile.
fn wake(setup: *Setup, issuer: usize) void {
    var all = streams.iterator();
    while (all.next()) |entry| {
        const stream = entry.value_ptr.*;
        if (stream.setup != setup or !stream.waitsFor(issuer)) continue;
        if (!host.speakFor(entry.key_ptr.*)) continue;
        if (stream.onKeys() == .go_on) host.continueRequest();
    }
}
