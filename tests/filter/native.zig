//! The core as a native library, so that any bytes can be thrown at it: what comes back is which way it took, or nothing at all
//! if a check of Zig's has failed. `fail_at`: which request for memory is denied.

const std = @import("std");
const core = @import("core");
const Allocator = std.mem.Allocator;

const access: core.access.Access = .{
    .resource = "https://gw.example.com/mcp",
    .issuers = &.{.{
        .issuer = "https://as.example.com",
        .audience = &.{},
        .algorithms = .full,
        .keys = .{ .cluster = "c", .authority = "a", .path = "/" },
    }},
    .rules = &.{.{ .match = .{ .tool = "a*b?*" }, .require = .{ .roles = &.{"{tool}"} } }},
    .prefixes = &.{.{ .prefix = "a", .backend = "b" }},
};

export fn throw(what: u8, data: [*]const u8, size: usize, fail_at: usize) u32 {
    var failing: std.testing.FailingAllocator = .init(std.heap.smp_allocator, .{ .fail_index = fail_at });
    var arena: std.heap.ArenaAllocator = .init(failing.allocator());
    defer arena.deinit();
    const a = arena.allocator();
    const text = data[0..size];
    return switch (what) {
        0 => body(a, text),
        1 => token(a, text),
        2 => keys(a, text),
        3 => config(a, text),
        4 => path(a, text),
        5 => values(a, text),
        else => 0,
    } catch |e| @as(u32, 1000) + @intFromError(e);
}

fn body(a: Allocator, text: []const u8) !u32 {
    var headers: core.asked.Headers = .{};
    headers.take("mcp-name", text);
    const found = try core.asked.byBody(a, &headers, text);
    _ = try core.asked.byHeaders(a, &headers);
    const principal: core.access.Principal = .{ .issuer = 0, .subject = "s", .scopes = &.{}, .claims = &.{}, .servers = null };
    const refused = try core.check.refusal(a, &access, &principal, .{ .kind = .mcp }, found);
    if (refused) |refusal| _ = try core.challenge.body(a, refusal, "1");
    return if (found == .refused) 1 else if (refused != null) 2 else if (found.asked.method.len > 0) 3 else 4;
}

fn token(a: Allocator, text: []const u8) !u32 {
    const found = try core.jwt.read(a, text, &access);
    const principal = try core.jwt.principal(a, found, &access, 1_700_000_000);
    _ = try core.text.quote(a, principal.subject, core.identity.safe);
    return 1;
}

fn keys(a: Allocator, text: []const u8) !u32 {
    return @intCast((try core.jwks.read(a, text)).len);
}

fn config(a: Allocator, text: []const u8) !u32 {
    var problem: core.config.Problem = .{};
    _ = try core.config.read(a, text, &problem);
    return 1;
}

fn path(a: Allocator, text: []const u8) !u32 {
    const found = try core.places.place(a, "GET", text);
    _ = try core.text.quote(a, found.server, "/");
    return @backingInt(found.kind);
}

/// As a tree and by skipping: both must find the same text to be JSON.
fn values(a: Allocator, text: []const u8) !u32 {
    const tree = core.json.parse(a, text, .last_counts);
    var reader: core.json_reader.Reader = .{ .text = text };
    const skipped: bool = if (reader.skip()) |_| if (reader.end()) |_| true else |_| false else |_| false;
    if (tree) |value| {
        if (!skipped) @panic("a tree of what cannot be skipped");
        _ = core.json.float(if (value == .number) value.number else "0");
        return 1;
    } else |e| {
        if (e == error.BadJson and skipped and std.unicode.utf8ValidateSlice(text) and !isDeep(text)) {
            @panic("skipped what is no tree");
        }
        return e;
    }
}

fn isDeep(text: []const u8) bool {
    return std.mem.countScalar(u8, text, '[') + std.mem.countScalar(u8, text, '{') > core.json.most_depth;
}
