//! Exposed names -> what is asked for, as far as a name alone says it: there is no catalogue here, there are prefixes.

const std = @import("std");
const Allocator = std.mem.Allocator;
const model = @import("access.zig");
const policy = @import("policy.zig");
const text = @import("text.zig");
const Access = model.Access;
const Target = model.Target;

/// What is about something of a backend's; all else the gateway answers for itself, or relates to such a thing.
const targeted = [_][]const u8{
    "tools/call",
    "prompts/get",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "completion/complete",
};

/// Null also where annotations decide: that is left to whoever knows them.
pub fn judgeable(a: Allocator, access: *const Access, method: []const u8, name: []const u8) Allocator.Error!?Target {
    if (!text.among(method, &targeted)) return .{ .method = method };
    const target = try byPrefix(a, access, method, name) orelse return null;
    return if (policy.dependsOnAnnotations(access, target)) null else target;
}

/// The longest prefix that fits names the backend. Whether it has that tool is another question.
fn byPrefix(a: Allocator, access: *const Access, method: []const u8, said: []const u8) Allocator.Error!?Target {
    const kind = kindOf(method);
    if (kind == .none) return null;
    const name = if (kind == .tool) try joined(a, said) else said;
    var found: ?model.Prefix = null;
    for (access.prefixes) |own| {
        if (own.prefix.len == 0 or own.prefix.len >= name.len or !std.mem.startsWith(u8, name, own.prefix)) continue;
        if (found == null or own.prefix.len > found.?.prefix.len) found = own;
    }
    const own = found orelse return null;
    return .{
        .method = method,
        .backend = own.backend,
        .kind = kind,
        .name = name,
        .upstream_name = name[own.prefix.len..],
    };
}

fn kindOf(method: []const u8) model.Kind {
    if (std.mem.eql(u8, method, "tools/call")) return .tool;
    return if (std.mem.eql(u8, method, "prompts/get")) .prompt else .none;
}

/// As the gateway reads names with spaces, of whichever kind.
fn joined(a: Allocator, name: []const u8) Allocator.Error![]const u8 {
    var found: std.ArrayList(u8) = .empty;
    var characters: text.Characters = .{ .text = name };
    var spaced = false;
    while (true) {
        const start = characters.at;
        const code = characters.next() orelse return found.items;
        if (text.isSpace(code)) {
            spaced = true;
            continue;
        }
        if (spaced and found.items.len > 0) try found.append(a, '_');
        spaced = false;
        try found.appendSlice(a, name[start..characters.at]);
    }
}
