//! Paths -> what they are for, and who may come there.

const std = @import("std");
const Allocator = std.mem.Allocator;
const text = @import("text.zig");

pub const metadata = "/.well-known/oauth-protected-resource";
const virtual = "/mcp/v/";
/// Pages on which users let the gateway act for them: they find out by themselves who has opened them.
const consent = "/oauth/upstream/";
/// What a user has let the gateway do: not open, but his.
const given = "/oauth/upstream/tokens/";

pub const Place = struct {
    kind: enum { open, mcp, consent, operators },
    /// The virtual server that the path names.
    server: []const u8 = "",
};

/// Whatever is not known to be something else needs what operators need. `path` is as the client sent it, with its query.
pub fn place(a: Allocator, verb: []const u8, path: []const u8) Allocator.Error!Place {
    const end = std.mem.findAny(u8, path, "?#") orelse path.len;
    const decoded = try text.unquote(a, path[0..end]);
    const found = of(verb, decoded);
    if (found.kind == .operators or std.mem.eql(u8, decoded, "/mcp")) return found;
    return if (isTricky(path[0..end]) or isTricky(decoded)) .{ .kind = .operators } else found;
}

fn of(verb: []const u8, path: []const u8) Place {
    const asking = std.mem.eql(u8, verb, "OPTIONS");
    if (std.mem.eql(u8, path, "/mcp")) return if (asking) .{ .kind = .open } else .{ .kind = .mcp };
    if (std.mem.startsWith(u8, path, virtual) and path.len > virtual.len) {
        return if (asking) .{ .kind = .open } else .{ .kind = .mcp, .server = path[virtual.len..] };
    }
    if (std.mem.eql(u8, path, "/health") or std.mem.eql(u8, path, metadata)) return .{ .kind = .open };
    if (std.mem.startsWith(u8, path, metadata ++ "/")) return .{ .kind = .open };
    if (std.mem.startsWith(u8, path, given)) return .{ .kind = .consent };
    if (std.mem.startsWith(u8, path, consent)) return .{ .kind = .open };
    return .{ .kind = .operators };
}

/// Whether somebody behind might take it for another path. What operators need is asked there anyway.
fn isTricky(path: []const u8) bool {
    for (path) |byte| if (byte < 0x20 or byte == 0x7f or byte == '\\' or byte == ';') return true;
    for ([_][]const u8{ "//", "%2e", "%5c", "%25" }) |trick| if (std.ascii.findIgnoreCase(path, trick) != null) return true;
    var segments = std.mem.splitScalar(u8, path, '/');
    while (segments.next()) |segment| {
        if (std.mem.eql(u8, segment, ".") or std.mem.eql(u8, segment, "..")) return true;
    }
    return false;
}
