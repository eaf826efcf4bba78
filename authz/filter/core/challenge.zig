//! What a refusal says (RFC 6750, RFC 9728): where a token is to be had, and which scopes it should have.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Error = Allocator.Error;
const jwt = @import("jwt.zig");
const metadata = @import("places.zig").metadata;
const model = @import("access.zig");
const policy = @import("policy.zig");
const text = @import("text.zig");
const Access = model.Access;
const Texts = model.Texts;

const unauthorized = -32001;
const forbidden_code = -32003;

pub const Refusal = struct {
    status: u16,
    message: []const u8,
    code: i32,
    /// The value of WWW-Authenticate.
    challenge: []const u8 = "",
    scopes: Texts = &.{},
    metadata_url: []const u8 = "",
};

const Said = struct { []const u8, []const u8 };

/// Whose metadata a refusal names: a tool's, a virtual server's, or the gateway's.
pub const About = struct { server: []const u8 = "", tool: []const u8 = "" };

pub fn noToken(a: Allocator, access: *const Access, about: About) Error!Refusal {
    return refusedToken(a, access, "Authentication required.", about, &.{});
}

pub fn badToken(a: Allocator, access: *const Access, bad: jwt.Bad, about: About) Error!Refusal {
    const why = jwt.message(bad);
    return refusedToken(a, access, why, about, &.{ .{ "error", "invalid_token" }, .{ "error_description", why } });
}

fn refusedToken(a: Allocator, access: *const Access, message: []const u8, about: About, said: []const Said) Error!Refusal {
    const url = try metadataAt(a, access, about);
    return .{
        .status = 401,
        .message = message,
        .code = unauthorized,
        .challenge = try header(a, said, access.required_scopes, url),
        .scopes = access.required_scopes,
        .metadata_url = url,
    };
}

/// With the missing scopes where they would help: a client asks its user for just those.
pub fn forbidden(a: Allocator, access: *const Access, verdict: policy.Verdict, about: About) Error!Refusal {
    const url = if (verdict.challenge.resource_metadata) |own|
        try std.mem.replaceOwned(u8, a, own, "{tool}", try text.quote(a, about.tool, ""))
    else
        try metadataAt(a, access, about);
    const description = verdict.challenge.description;
    const insufficient: Said = .{ "error", "insufficient_scope" };
    const said: []const Said = if (description) |words|
        &.{ insufficient, .{ "error_description", words } }
    else
        &.{insufficient};
    return .{
        .status = 403,
        .message = description orelse "MCP Access denied: Insufficient permissions.",
        .code = forbidden_code,
        .challenge = try header(a, said, verdict.missing, url),
        .scopes = verdict.missing,
        .metadata_url = url,
    };
}

pub fn unavailable() Refusal {
    return .{ .status = 503, .message = "The keys of the authorization server cannot be had at the moment.", .code = unauthorized };
}

fn metadataAt(a: Allocator, access: *const Access, about: About) Error![]const u8 {
    const base = access.baseUrl();
    if (about.tool.len > 0) {
        return std.mem.concat(a, u8, &.{ base, metadata, "/tool/", try text.quote(a, about.tool, "") });
    }
    const own = access.resource[base.len..];
    if (about.server.len == 0) return std.mem.concat(a, u8, &.{ base, metadata, own });
    return std.mem.concat(a, u8, &.{ base, metadata, own, "/v/", try text.quote(a, about.server, "/") });
}

fn header(a: Allocator, said: []const Said, scopes: Texts, url: []const u8) Error![]const u8 {
    var found: std.ArrayList(u8) = .empty;
    try found.appendSlice(a, "Bearer ");
    for (said) |pair| try parameter(&found, a, pair[0], pair[1]);
    if (scopes.len > 0) try parameter(&found, a, "scope", try std.mem.join(a, " ", scopes));
    try parameter(&found, a, "resource_metadata", url);
    return found.items[0 .. found.items.len - 2];
}

/// Whatever a quoted string cannot hold is left out: nothing here may end a header early.
fn parameter(found: *std.ArrayList(u8), a: Allocator, name: []const u8, value: []const u8) Error!void {
    try found.appendSlice(a, name);
    try found.appendSlice(a, "=\"");
    for (value) |byte| switch (byte) {
        0x20...0x21, 0x23...0x5b, 0x5d...0x7e => try found.append(a, byte),
        else => {},
    };
    try found.appendSlice(a, "\", ");
}

/// A JSON-RPC error. `id` is JSON.
pub fn body(a: Allocator, refused: Refusal, id: []const u8) Error![]const u8 {
    var found: std.ArrayList(u8) = .empty;
    try found.print(a, "{{\"jsonrpc\":\"2.0\",\"id\":{s},\"error\":{{\"code\":{d},\"message\":", .{ id, refused.code });
    try text.writeJson(&found, a, refused.message);
    try writeData(&found, a, refused);
    try found.appendSlice(a, "}}");
    return found.items;
}

fn writeData(found: *std.ArrayList(u8), a: Allocator, refused: Refusal) Error!void {
    if (refused.challenge.len == 0) return;
    try found.appendSlice(a, ",\"data\":{\"wwwAuthenticate\":");
    try text.writeJson(found, a, refused.challenge);
    try found.appendSlice(a, ",\"resourceMetadata\":");
    try text.writeJson(found, a, refused.metadata_url);
    if (refused.scopes.len > 0) {
        for (refused.scopes, 0..) |scope, number| {
            try found.appendSlice(a, if (number == 0) ",\"scopes\":[" else ",");
            try text.writeJson(found, a, scope);
        }
        try found.append(a, ']');
    }
    try found.append(a, '}');
}
