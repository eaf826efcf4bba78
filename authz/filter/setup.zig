//! One configuration and what was learnt under it: keys and tokens. It lives until the last request under it has ended.

const std = @import("std");
const Allocator = std.mem.Allocator;
const core = @import("core.zig");
const host = @import("host.zig");

const timeout_ms = 10_000;

pub const Setup = struct {
    arena: std.heap.ArenaAllocator,
    config: core.config.Config,
    guard: core.guard.Guard,
    /// The calls under way, one for each issuer.
    calls: []?u32,
    users: usize = 0,
    /// Another one has taken its place.
    replaced: bool = false,

    /// Null: the configuration cannot be used; the log says why.
    pub fn init(text: []const u8) ?*Setup {
        const setup = host.gpa.create(Setup) catch return null;
        setup.arena = .init(host.gpa);
        setup.begin(text) catch {
            setup.arena.deinit();
            host.gpa.destroy(setup);
            return null;
        };
        return setup;
    }

    fn begin(setup: *Setup, text: []const u8) error{ BadConfig, OutOfMemory }!void {
        const a = setup.arena.allocator();
        var problem: core.config.Problem = .{};
        const own = try a.dupe(u8, text);
        const config = core.config.read(a, own, &problem) catch |e| {
            host.log(.failure, "portico: the configuration cannot be used: {s}", .{problem.member});
            return e;
        };
        const calls = try a.alloc(?u32, config.access.issuers.len);
        @memset(calls, null);
        setup.* = .{ .arena = setup.arena, .config = config, .guard = undefined, .calls = calls };
        setup.guard = try .init(host.gpa, &setup.config.access, config.most_tokens, isGood);
    }

    pub fn used(setup: *Setup) *Setup {
        setup.users += 1;
        return setup;
    }

    pub fn unused(setup: *Setup) void {
        setup.users -= 1;
        setup.freeIfDone();
    }

    pub fn replace(setup: *Setup) void {
        setup.replaced = true;
        setup.freeIfDone();
    }

    fn freeIfDone(setup: *Setup) void {
        if (!setup.replaced or setup.users > 0) return;
        setup.guard.deinit(host.gpa);
        const arena = setup.arena;
        host.gpa.destroy(setup);
        arena.deinit();
    }

    /// Begins the fetches that are wanted, until one fails at once: whose keys those are.
    pub fn fetch(setup: *Setup, now: f64) ?usize {
        for (setup.guard.rings, setup.calls, 0..) |*ring, *call, issuer| {
            if (!ring.wanted) continue;
            ring.wanted = false;
            call.* = setup.ask(issuer) catch null;
            if (call.* != null) continue;
            setup.fetched(issuer, null, now);
            return issuer;
        }
        return null;
    }

    fn ask(setup: *Setup, issuer: usize) Allocator.Error!?u32 {
        var arena: std.heap.ArenaAllocator = .init(host.gpa);
        defer arena.deinit();
        const source = setup.config.access.issuers[issuer].keys;
        return host.call(arena.allocator(), source.cluster, &.{
            .{ ":method", "GET" },
            .{ ":scheme", "https" },
            .{ ":path", source.path },
            .{ ":authority", source.authority },
            .{ "accept", "application/json" },
        }, timeout_ms);
    }

    pub fn asks(setup: *const Setup, call: u32) bool {
        for (setup.calls) |under_way| if (under_way == call) return true;
        return false;
    }

    /// Whose keys they are.
    pub fn answered(setup: *Setup, call: u32, document: ?[]const u8, now: f64) ?usize {
        for (setup.calls, 0..) |*under_way, issuer| {
            if (under_way.* != call) continue;
            under_way.* = null;
            setup.fetched(issuer, document, now);
            return issuer;
        }
        return null;
    }

    fn fetched(setup: *Setup, issuer: usize, document: ?[]const u8, now: f64) void {
        if (setup.guard.rings[issuer].fetched(document, now)) return;
        host.log(.warning, "portico: the keys of {s} cannot be had", .{setup.config.access.issuers[issuer].issuer});
    }
};

fn isGood(_: Allocator, arguments: []const u8) ?bool {
    const answer = host.foreign("verify_signature", arguments) orelse return null;
    defer answer.free();
    return core.signature.result(answer.data);
}
