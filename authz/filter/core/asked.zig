//! A POST's headers and body -> what it asks for, where body and headers agree.
//!
//! As strict as the gateway behind: what two readers might read differently is refused, not judged by one of the readings.
//! Of the body only what is looked at is kept; all of it is read.

const std = @import("std");
const Allocator = std.mem.Allocator;
const base64 = @import("base64.zig");
const json = @import("json.zig");
const text = @import("text.zig");
const Reader = @import("json_reader.zig").Reader;
const Refusal = @import("challenge.zig").Refusal;

const parse_error = -32700;
const header_mismatch = -32020;
/// A message has a handful. More are refused, so that nobody makes us sort millions.
const most_members = 1024;

pub const Asked = struct {
    /// Empty where nothing is asked: a notification, an answer, a batch (whose parts the gateway judges one by one).
    method: []const u8 = "",
    name: []const u8 = "",
    /// As JSON.
    id: []const u8 = "null",

    pub fn tool(asked: Asked) []const u8 {
        return if (std.mem.eql(u8, asked.method, "tools/call")) asked.name else "";
    }
};

/// Those that repeat the body. As they came, each at most once.
pub const Headers = struct {
    method: ?[]const u8 = null,
    name: ?[]const u8 = null,
    version: ?[]const u8 = null,
    repeated: bool = false,

    /// If it is one of them.
    pub fn take(headers: *Headers, name: []const u8, value: []const u8) void {
        const place = if (std.ascii.eqlIgnoreCase(name, "mcp-method"))
            &headers.method
        else if (std.ascii.eqlIgnoreCase(name, "mcp-name"))
            &headers.name
        else if (std.ascii.eqlIgnoreCase(name, "mcp-protocol-version"))
            &headers.version
        else
            return;
        if (place.* != null) headers.repeated = true;
        place.* = text.strip(value);
    }

    pub fn isModern(headers: *const Headers) bool {
        return headers.method != null and std.mem.eql(u8, headers.version orelse return false, "2026-07-28");
    }
};

pub const Found = union(enum) { asked: Asked, refused: Refusal };

/// Of what a refusal says here, nothing needs copying.
pub fn copy(a: Allocator, found: Found) Allocator.Error!Found {
    const asked = switch (found) {
        .refused => return found,
        .asked => |own| own,
    };
    return .{ .asked = .{
        .method = try a.dupe(u8, asked.method),
        .name = try a.dupe(u8, asked.name),
        .id = try a.dupe(u8, asked.id),
    } };
}

/// All there is where nobody shows us the body.
pub fn byHeaders(a: Allocator, headers: *const Headers) Allocator.Error!Found {
    if (headers.repeated) return .{ .refused = repeated };
    const method = headers.method orelse return .{ .asked = .{} };
    const name = if (headers.name) |said| try decoded(a, said) orelse "" else "";
    return .{ .asked = .{ .method = try text.fromLatin1(a, method), .name = name } };
}

pub fn byBody(a: Allocator, headers: *const Headers, body: []const u8) Allocator.Error!Found {
    if (headers.repeated) return .{ .refused = repeated };
    if (body.len == 0) return byHeaders(a, headers);
    const message = readMessage(a, body) catch |e| switch (e) {
        error.OutOfMemory => return error.OutOfMemory,
        error.BadJson => return .{ .refused = unreadable },
    };
    const asked = message.asked orelse return .{ .asked = .{} };
    if (try lie(a, headers, asked.method, message.name)) |refused| return .{ .refused = refused };
    return .{ .asked = asked };
}

fn lie(a: Allocator, headers: *const Headers, method: []const u8, name: ?[]const u8) Allocator.Error!?Refusal {
    if (headers.method) |said| {
        if (!std.mem.eql(u8, try text.fromLatin1(a, said), method)) return mismatch("mcp-method");
    }
    const said = try decoded(a, headers.name orelse return null);
    const wanted = name orelse return null;
    if (said == null or !std.mem.eql(u8, said.?, wanted)) return mismatch("mcp-name");
    return null;
}

/// What does not fit into a header is marked as base64. Null: it is marked, and is none.
fn decoded(a: Allocator, value: []const u8) Allocator.Error!?[]const u8 {
    const start, const end = .{ "=?base64?", "?=" };
    if (value.len < start.len + end.len or !std.mem.startsWith(u8, value, start) or !std.mem.endsWith(u8, value, end)) {
        return try text.fromLatin1(a, value);
    }
    const found = base64.fromStandard(a, value[start.len .. value.len - end.len]) catch |e| switch (e) {
        error.BadBase64 => return null,
        error.OutOfMemory => return error.OutOfMemory,
    };
    return if (std.unicode.wtf8ValidateSlice(found)) found else null;
}

const Message = struct { asked: ?Asked = null, name: ?[]const u8 = null };
const Error = error{ BadJson, OutOfMemory };

fn readMessage(a: Allocator, body: []const u8) Error!Message {
    if (!std.unicode.utf8ValidateSlice(body)) return error.BadJson;
    var reader: Reader = .{ .text = body };
    reader.space();
    if (try reader.peek() == '[') {
        try reader.skip();
        try reader.end();
        return .{};
    }
    const found = try readMembers(a, &reader, &.{ "method", "id", "params" });
    try reader.end();
    return understood(a, found);
}

/// Where each member stands that is wanted; null where it is not there. Whoever says anything twice is not understood.
fn readMembers(a: Allocator, reader: *Reader, comptime wanted: []const []const u8) Error![wanted.len]?[]const u8 {
    var found: [wanted.len]?[]const u8 = @splat(null);
    var names: std.ArrayList([]const u8) = .empty;
    try reader.expect('{');
    reader.space();
    if (reader.taken('}')) return found;
    while (true) {
        const name = try reader.name(a);
        if (names.items.len == most_members) return error.BadJson;
        try names.append(a, name);
        reader.space();
        const start = reader.at;
        try reader.skip();
        inline for (wanted, &found) |want, *place| {
            if (std.mem.eql(u8, name, want)) place.* = reader.text[start..reader.at];
        }
        reader.space();
        if (reader.taken('}')) break;
        try reader.expect(',');
    }
    return if (json.repeated(names.items)) error.BadJson else found;
}

fn understood(a: Allocator, found: [3]?[]const u8) Error!Message {
    const method = try string(a, found[0] orelse return .{}) orelse return .{};
    const id = try idOf(a, found[1] orelse return .{}) orelse return .{};
    const name = if (found[2]) |params| try nameIn(a, method, params) else null;
    return .{ .asked = .{ .method = method, .name = name orelse "", .id = id }, .name = name };
}

fn nameIn(a: Allocator, method: []const u8, params: []const u8) Error!?[]const u8 {
    if (params[0] != '{') return null;
    var reader: Reader = .{ .text = params };
    const found = try readMembers(a, &reader, &.{ "name", "uri" });
    if (std.mem.eql(u8, method, "resources/read")) return string(a, found[1] orelse return null);
    const named = std.mem.eql(u8, method, "tools/call") or std.mem.eql(u8, method, "prompts/get");
    return if (named) string(a, found[0] orelse return null) else null;
}

/// Null if it is none.
fn string(a: Allocator, written: []const u8) Error!?[]const u8 {
    if (written[0] != '"') return null;
    var reader: Reader = .{ .text = written };
    return try reader.string(a);
}

/// As Python writes it. Null if it is neither text nor an integer.
fn idOf(a: Allocator, written: []const u8) Error!?[]const u8 {
    if (try string(a, written)) |said| {
        var found: std.ArrayList(u8) = .empty;
        try text.writeJson(&found, a, said);
        return found.items;
    }
    const value: json.Value = switch (written[0]) {
        '-', '0'...'9' => .{ .number = written },
        else => return null,
    };
    if (!value.isInteger()) return null;
    return if (std.mem.eql(u8, written, "-0")) "0" else written;
}

const unreadable: Refusal = .{ .status = 400, .message = "Parse error", .code = parse_error };
const repeated: Refusal = .{
    .status = 400,
    .message = "Header mismatch: a header that repeats the body stands there more than once",
    .code = header_mismatch,
};

fn mismatch(comptime name: []const u8) Refusal {
    return .{
        .status = 400,
        .message = "Header mismatch: the header " ++ name ++ " does not match the body",
        .code = header_mismatch,
    };
}

pub fn tooLarge(a: Allocator, most: usize) Allocator.Error!Refusal {
    const message = try std.fmt.allocPrint(a, "the body is larger than {d} bytes", .{most});
    return .{ .status = 413, .message = message, .code = -32600 };
}
