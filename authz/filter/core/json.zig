//! JSON, read as strictly as the gateway reads it: nothing that two readers might understand differently gets through.
//!
//! Nesting is bounded, and so is recursion. Text is UTF-8, in which a surrogate that stands alone is written as if it were a
//! character, so that nothing is lost on the way.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Reader = @import("json_reader.zig").Reader;

pub const Error = error{ BadJson, SaidTwice, OutOfMemory };

/// Of what is kept as a tree.
pub const most_depth = 128;

pub const Member = struct { name: []const u8, value: Value };

pub const Value = union(enum) {
    null,
    boolean: bool,
    /// As it is written.
    number: []const u8,
    text: []const u8,
    list: []const Value,
    object: []const Member,

    /// The last one of that name; null also where there can be none.
    pub fn get(value: Value, name: []const u8) ?Value {
        if (value != .object) return null;
        return find(value.object, name);
    }

    pub fn asText(value: Value) ?[]const u8 {
        return if (value == .text) value.text else null;
    }

    pub fn isInteger(value: Value) bool {
        return value == .number and std.mem.findAny(u8, value.number, ".eE") == null;
    }

    /// Nothing of the copy is shared.
    pub fn copy(value: Value, a: Allocator) Allocator.Error!Value {
        return switch (value) {
            .null, .boolean => value,
            .number => |said| .{ .number = try a.dupe(u8, said) },
            .text => |said| .{ .text = try a.dupe(u8, said) },
            .list => |items| list: {
                const found = try a.alloc(Value, items.len);
                for (items, found) |item, *into| into.* = try item.copy(a);
                break :list .{ .list = found };
            },
            .object => |members| .{ .object = try copyMembers(members, a) },
        };
    }
};

pub fn copyMembers(members: []const Member, a: Allocator) Allocator.Error![]const Member {
    const found = try a.alloc(Member, members.len);
    for (members, found) |member, *into| {
        into.* = .{ .name = try a.dupe(u8, member.name), .value = try member.value.copy(a) };
    }
    return found;
}

pub fn find(members: []const Member, name: []const u8) ?Value {
    var left = members.len;
    while (left > 0) {
        left -= 1;
        if (std.mem.eql(u8, members[left].name, name)) return members[left].value;
    }
    return null;
}

/// Exact for integers that a float can hold, and nearly so for all else: the table that would make it exact is larger than all
/// the rest of this file.
pub fn float(number: []const u8) f64 {
    var found: f64 = 0;
    var exponent: i32 = 0;
    var fraction = false;
    for (number, 0..) |character, at| switch (character) {
        '0'...'9' => {
            found = found * 10 + @as(f64, @floatFromInt(character - '0'));
            exponent -= @intFromBool(fraction);
        },
        '.' => fraction = true,
        'e', 'E' => {
            exponent = std.math.clamp(exponent +| written(number[at + 1 ..]), -far, far);
            break;
        },
        else => {},
    };
    const scaled = if (exponent < 0) found / power(-exponent) else found * power(exponent);
    return if (number[0] == '-') -scaled else scaled;
}

/// Further than any float reaches.
const far = 100_000;

fn written(exponent: []const u8) i32 {
    return std.fmt.parseInt(i32, exponent, 10) catch if (exponent[0] == '-') -far else far;
}

fn power(exponent: i32) f64 {
    var found: f64 = 1;
    for (0..@intCast(@min(exponent, 400))) |_| found *= 10;
    return found;
}

pub const Repeats = enum { refused, last_counts };

/// What is found may point into `text`.
pub fn parse(a: Allocator, text: []const u8, repeats: Repeats) Error!Value {
    if (!std.unicode.utf8ValidateSlice(text)) return error.BadJson;
    var reader: Reader = .{ .text = text };
    const found = try one(a, &reader, repeats, most_depth);
    try reader.end();
    return found;
}

fn one(a: Allocator, reader: *Reader, repeats: Repeats, depth: usize) Error!Value {
    reader.space();
    return switch (try reader.peek()) {
        '{' => .{ .object = try object(a, reader, repeats, depth) },
        '[' => .{ .list = try list(a, reader, repeats, depth) },
        '"' => .{ .text = try reader.string(a) },
        't' => literal(reader, "true", .{ .boolean = true }),
        'f' => literal(reader, "false", .{ .boolean = false }),
        'n' => literal(reader, "null", .null),
        else => .{ .number = try reader.number() },
    };
}

fn literal(reader: *Reader, word: []const u8, value: Value) Error!Value {
    try reader.word(word);
    return value;
}

fn list(a: Allocator, reader: *Reader, repeats: Repeats, depth: usize) Error![]const Value {
    if (depth == 0) return error.BadJson;
    var found: std.ArrayList(Value) = .empty;
    reader.at += 1;
    reader.space();
    if (reader.taken(']')) return &.{};
    while (true) {
        try found.append(a, try one(a, reader, repeats, depth - 1));
        reader.space();
        if (reader.taken(']')) return found.items;
        try reader.expect(',');
    }
}

fn object(a: Allocator, reader: *Reader, repeats: Repeats, depth: usize) Error![]const Member {
    if (depth == 0) return error.BadJson;
    var found: std.ArrayList(Member) = .empty;
    reader.at += 1;
    reader.space();
    if (reader.taken('}')) return &.{};
    while (true) {
        const name = try reader.name(a);
        try found.append(a, .{ .name = name, .value = try one(a, reader, repeats, depth - 1) });
        reader.space();
        if (reader.taken('}')) break;
        try reader.expect(',');
    }
    if (repeats == .refused and try twice(a, found.items)) return error.SaidTwice;
    return found.items;
}

fn twice(a: Allocator, members: []const Member) Allocator.Error!bool {
    const names = try a.alloc([]const u8, members.len);
    for (members, names) |member, *name| name.* = member.name;
    return repeated(names);
}

/// Sorts them.
pub fn repeated(names: [][]const u8) bool {
    std.mem.sortUnstable([]const u8, names, {}, before);
    for (names, 1..) |name, next| {
        if (next < names.len and std.mem.eql(u8, name, names[next])) return true;
    }
    return false;
}

pub fn before(_: void, one_: []const u8, other: []const u8) bool {
    return std.mem.lessThan(u8, one_, other);
}
