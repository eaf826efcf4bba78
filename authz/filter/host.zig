//! proxy-wasm 0.2.1 as this filter uses it. What the host gives is freed here; nothing of the host's is believed to be there.

const std = @import("std");
const Allocator = std.mem.Allocator;

pub const gpa = std.heap.wasm_allocator;

const calls = struct {
    extern "env" fn proxy_log(level: u32, text: [*]const u8, size: usize) u32;
    extern "env" fn proxy_get_current_time_nanoseconds(time: *u64) u32;
    extern "env" fn proxy_set_tick_period_milliseconds(period: u32) u32;
    extern "env" fn proxy_get_buffer_bytes(buffer: u32, start: usize, most: usize, data: *?[*]u8, size: *usize) u32;
    extern "env" fn proxy_get_header_map_pairs(map: u32, data: *?[*]u8, size: *usize) u32;
    extern "env" fn proxy_replace_header_map_value(
        map: u32,
        name: [*]const u8,
        name_size: usize,
        value: [*]const u8,
        size: usize,
    ) u32;
    extern "env" fn proxy_remove_header_map_value(map: u32, name: [*]const u8, size: usize) u32;
    extern "env" fn proxy_send_local_response(
        status: u32,
        details: [*]const u8,
        details_size: usize,
        body: [*]const u8,
        body_size: usize,
        headers: [*]const u8,
        headers_size: usize,
        grpc: i32,
    ) u32;
    extern "env" fn proxy_http_call(
        cluster: [*]const u8,
        cluster_size: usize,
        headers: [*]const u8,
        headers_size: usize,
        body: [*]const u8,
        body_size: usize,
        trailers: [*]const u8,
        trailers_size: usize,
        timeout: u32,
        call: *u32,
    ) u32;
    extern "env" fn proxy_continue_stream(stream: u32) u32;
    extern "env" fn proxy_set_effective_context(context: u32) u32;
    extern "env" fn proxy_call_foreign_function(
        name: [*]const u8,
        name_size: usize,
        data: [*]const u8,
        size: usize,
        answer: *?[*]u8,
        answer_size: *usize,
    ) u32;
};

pub const Buffer = enum(u32) { request_body = 0, call_response_body = 4, configuration = 7 };
pub const Map = enum(u32) { request_headers = 0, call_response_headers = 6 };
pub const Level = enum(u32) { info = 2, warning = 3, failure = 4 };
pub const Header = struct { []const u8, []const u8 };

const request = 0;
const no_pairs = "\x00\x00\x00\x00";

pub fn log(level: Level, comptime format: []const u8, values: anytype) void {
    var room: [256]u8 = undefined;
    var writer: std.Io.Writer = .fixed(&room);
    writer.print(format, values) catch {};
    const text = writer.buffered();
    _ = calls.proxy_log(@backingInt(level), text.ptr, text.len);
}

/// In seconds. Without a clock everything has expired.
pub fn now() f64 {
    var time: u64 = 0;
    if (calls.proxy_get_current_time_nanoseconds(&time) != 0) return std.math.inf(f64);
    return @as(f64, @floatFromInt(time)) / 1e9;
}

pub fn tickEvery(milliseconds: u32) void {
    _ = calls.proxy_set_tick_period_milliseconds(milliseconds);
}

/// What the host has allocated. Whoever asks for it frees it.
pub const Given = struct {
    data: []u8,

    pub fn free(given: Given) void {
        if (given.data.len > 0) gpa.free(given.data);
    }

    fn of(data: ?[*]u8, size: usize) Given {
        return .{ .data = if (data) |own| own[0..size] else &.{} };
    }
};

pub fn buffer(kind: Buffer, size: usize) ?Given {
    var data: ?[*]u8 = null;
    var found: usize = 0;
    if (calls.proxy_get_buffer_bytes(@backingInt(kind), 0, size, &data, &found) != 0) return null;
    return .of(data, found);
}

/// To be read by `Pairs`.
pub fn headers(map: Map) ?Given {
    var data: ?[*]u8 = null;
    var found: usize = 0;
    if (calls.proxy_get_header_map_pairs(@backingInt(map), &data, &found) != 0) return null;
    return .of(data, found);
}

/// How the host writes headers down. Ends early where what is written makes no sense.
pub const Pairs = struct {
    data: []const u8,
    left: u32,
    sizes: usize,
    at: usize,

    pub fn of(data: []const u8) Pairs {
        const count = number(data, 0) orelse 0;
        return .{ .data = data, .left = count, .sizes = 4, .at = 4 +| 8 *| @as(usize, count) };
    }

    pub fn next(pairs: *Pairs) ?Header {
        if (pairs.left == 0) return null;
        pairs.left -= 1;
        const name_size = number(pairs.data, pairs.sizes) orelse return null;
        const size = number(pairs.data, pairs.sizes + 4) orelse return null;
        pairs.sizes += 8;
        const name = pairs.text(name_size) orelse return null;
        return .{ name, pairs.text(size) orelse return null };
    }

    fn text(pairs: *Pairs, size: u32) ?[]const u8 {
        const end = pairs.at +| size;
        if (end >= pairs.data.len) return null;
        defer pairs.at = end + 1;
        return pairs.data[pairs.at..end];
    }
};

fn number(data: []const u8, at: usize) ?u32 {
    if (at +| 4 > data.len) return null;
    return std.mem.readInt(u32, data[at..][0..4], .little);
}

fn written(a: Allocator, pairs: []const Header) Allocator.Error![]const u8 {
    var found: std.ArrayList(u8) = .empty;
    try appendNumber(&found, a, pairs.len);
    for (pairs) |pair| inline for (pair) |text| try appendNumber(&found, a, text.len);
    for (pairs) |pair| inline for (pair) |text| {
        try found.appendSlice(a, text);
        try found.append(a, 0);
    };
    return found.items;
}

fn appendNumber(found: *std.ArrayList(u8), a: Allocator, value: usize) Allocator.Error!void {
    var room: [4]u8 = undefined;
    std.mem.writeInt(u32, &room, @intCast(value), .little);
    try found.appendSlice(a, &room);
}

pub fn setHeader(name: []const u8, value: []const u8) void {
    _ = calls.proxy_replace_header_map_value(@backingInt(Map.request_headers), name.ptr, name.len, value.ptr, value.len);
}

pub fn removeHeader(name: []const u8) void {
    _ = calls.proxy_remove_header_map_value(@backingInt(Map.request_headers), name.ptr, name.len);
}

pub fn reply(a: Allocator, status: u32, pairs: []const Header, body: []const u8) Allocator.Error!void {
    const head = try written(a, pairs);
    _ = calls.proxy_send_local_response(status, "portico", 7, body.ptr, body.len, head.ptr, head.len, -1);
}

/// Without a reason, and without anything that takes memory.
pub fn refuse() void {
    _ = calls.proxy_send_local_response(503, "portico", 7, "", 0, no_pairs, no_pairs.len, -1);
}

/// Null: there is nobody to ask.
pub fn call(a: Allocator, cluster: []const u8, pairs: []const Header, timeout: u32) Allocator.Error!?u32 {
    const head = try written(a, pairs);
    var found: u32 = 0;
    const status = calls.proxy_http_call(cluster.ptr, cluster.len, head.ptr, head.len, "", 0, no_pairs, no_pairs.len, timeout, &found);
    return if (status == 0) found else null;
}

pub fn continueRequest() void {
    _ = calls.proxy_continue_stream(request);
}

/// What follows is about another context.
pub fn speakFor(context: u32) bool {
    return calls.proxy_set_effective_context(context) == 0;
}

/// Null: there is no such function, or it failed.
pub fn foreign(name: []const u8, data: []const u8) ?Given {
    var answer: ?[*]u8 = null;
    var size: usize = 0;
    if (calls.proxy_call_foreign_function(name.ptr, name.len, data.ptr, data.len, &answer, &size) != 0) return null;
    return .of(answer, size);
}
