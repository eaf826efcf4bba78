//! What the core does natively, where it can be looked at from closer than a host can.

const std = @import("std");
const core = @import("core");
const expect = std.testing.expect;
const gpa = std.testing.allocator;

fn principal(subject: []const u8) core.access.Principal {
    return .{ .issuer = 0, .subject = subject, .scopes = &.{"a"}, .claims = &.{}, .servers = null };
}

fn times(comptime text: []const u8, comptime count: usize) []const u8 {
    comptime var found: []const u8 = "";
    inline for (0..count) |_| found = found ++ text;
    return found;
}

test "what is remembered is found until it expires, and not under another digest" {
    var cache: core.cache.Cache = try .init(gpa, 16);
    defer cache.deinit();
    const digest, const other = .{ core.cache.digestOf("one"), core.cache.digestOf("other") };
    cache.put(&digest, principal("ada"), 100, 150, 7);
    const found, const generation = cache.find(&digest, 149.9).?;
    try expect(std.mem.eql(u8, found.subject, "ada") and generation == 7);
    try expect(cache.find(&digest, 150) == null);
    try expect(cache.find(&other, 100) == null);
    cache.put(&other, principal("eve"), 100, 1e9, 7);
    try expect(cache.find(&other, 100 + core.cache.held_s) == null);
}

test "a cache is never fuller than it was made, and the newest is always in it" {
    var cache: core.cache.Cache = try .init(gpa, 16);
    defer cache.deinit();
    for (0..1000) |number| {
        var room: [8]u8 = undefined;
        const digest = core.cache.digestOf(try std.fmt.bufPrint(&room, "{d}", .{number}));
        cache.put(&digest, principal("ada"), @floatFromInt(number), 1e9, 0);
        try expect(cache.find(&digest, @floatFromInt(number)) != null);
    }
    try expect(cache.count() == 16);
}

test "a cache for nothing keeps nothing" {
    var cache: core.cache.Cache = try .init(gpa, 0);
    defer cache.deinit();
    const digest = core.cache.digestOf("one");
    cache.put(&digest, principal("ada"), 0, 1, 0);
    try expect(cache.find(&digest, 0) == null);
}

test "what there is no memory for is not remembered, and nothing is lost" {
    for (0..12) |number| {
        var failing: std.testing.FailingAllocator = .init(gpa, .{ .fail_index = number });
        var cache: core.cache.Cache = core.cache.Cache.init(failing.allocator(), 4) catch continue;
        defer cache.deinit();
        const digest = core.cache.digestOf("one");
        cache.put(&digest, principal("ada"), 0, 1, 0);
        if (cache.find(&digest, 0)) |found| try expect(std.mem.eql(u8, found[0].subject, "ada"));
    }
}

test "globs" {
    const glob = core.policy.glob;
    for ([_][2][]const u8{ .{ "", "" }, .{ "*", "" }, .{ "**", "ab" }, .{ "a*b", "ab" }, .{ "a*b*c", "a-b-b-c" }, .{ "?", "ä" }, .{ "*?*", "x" } }) |pair| {
        try expect(glob(pair[0], pair[1]));
    }
    for ([_][2][]const u8{ .{ "", "a" }, .{ "?", "" }, .{ "a*b", "abc" }, .{ "a", "A" }, .{ "??", "ä" }, .{ "*a", "ab" } }) |pair| {
        try expect(!glob(pair[0], pair[1]));
    }
}

test "a glob of many stars takes no longer than its product" {
    const name: [2000]u8 = @splat('a');
    try expect(!core.policy.glob(comptime times("*a", 200) ++ "b", &name));
}

test "floats" {
    const float = core.json.float;
    for ([_]struct { []const u8, f64 }{ .{ "0", 0 }, .{ "-1.5", -1.5 }, .{ "1700003600.25", 1700003600.25 }, .{ "17e8", 17e8 }, .{ "25E-2", 0.25 } }) |pair| {
        try expect(float(pair[0]) == pair[1]);
    }
    try expect(float("1e400") == std.math.inf(f64));
    try expect(float("1e99999999999999999999") == std.math.inf(f64));
    try expect(float("1e-99999999999999999999") == 0);
    try expect(float("1e-2147483648") == 0);
    try expect(float("0.1e-2147483648") == 0);
    try expect(float("1e2147483647") == std.math.inf(f64));
    try expect(float("-1E+999") == -std.math.inf(f64));
}

test "nesting has an end" {
    var arena: std.heap.ArenaAllocator = .init(gpa);
    defer arena.deinit();
    const most = core.json.most_depth;
    try expect((try core.json.parse(arena.allocator(), comptime times("[", most) ++ times("]", most), .refused)) == .list);
    try std.testing.expectError(error.BadJson, core.json.parse(arena.allocator(), comptime times("[", most + 1) ++ times("]", most + 1), .refused));
}
