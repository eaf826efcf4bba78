//! What the gateway, which is Python, takes for space, for printable, and for safe in a URL.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// The characters of a text, of which surrogates may stand alone. The text is as `json` gives it.
pub const Characters = struct {
    text: []const u8,
    at: usize = 0,

    pub fn next(c: *Characters) ?u21 {
        if (c.at >= c.text.len) return null;
        const length = std.unicode.utf8ByteSequenceLength(c.text[c.at]) catch return c.one();
        if (c.text.len - c.at < length) return c.one();
        const code = std.unicode.wtf8Decode(c.text[c.at..][0..length]) catch return c.one();
        c.at += length;
        return code;
    }

    /// What is no UTF-8 stands for itself.
    fn one(c: *Characters) u21 {
        c.at += 1;
        return c.text[c.at - 1];
    }
};

/// Headers are read as Latin-1 there.
pub fn fromLatin1(a: Allocator, value: []const u8) Allocator.Error![]const u8 {
    const high = highBytes(value);
    if (high == 0) return value;
    const found = try a.alloc(u8, value.len + high);
    var at: usize = 0;
    for (value) |byte| at += std.unicode.wtf8Encode(byte, found[at..]) catch 0;
    return found;
}

fn highBytes(value: []const u8) usize {
    var found: usize = 0;
    for (value) |byte| found += @intFromBool(byte >= 0x80);
    return found;
}

pub fn strip(value: []const u8) []const u8 {
    var from: usize = 0;
    var to = value.len;
    while (from < to and isSpace(value[from])) from += 1;
    while (to > from and isSpace(value[to - 1])) to -= 1;
    return value[from..to];
}

pub fn isSpace(code: u21) bool {
    return switch (code) {
        '\t'...'\r', 0x1c...' ', 0x85, 0xa0, 0x1680, 0x2000...0x200a => true,
        0x2028, 0x2029, 0x202f, 0x205f, 0x3000 => true,
        else => false,
    };
}

/// As Python has it, but for characters that Unicode has not assigned yet: those pass here.
pub fn isPrintable(text: []const u8) bool {
    var characters: Characters = .{ .text = text };
    while (characters.next()) |code| if (isControl(code) or (isSpace(code) and code != ' ')) return false;
    return true;
}

/// Controls, formats, surrogates, and what is for private use.
fn isControl(code: u21) bool {
    return switch (code) {
        0...0x1f, 0x7f...0x9f, 0xad, 0x600...0x605, 0x61c, 0x6dd, 0x70f, 0x890...0x891, 0x8e2 => true,
        0x180e, 0x200b...0x200f, 0x202a...0x202e, 0x2060...0x206f, 0xd800...0xf8ff => true,
        0xfeff, 0xfff0...0xfffb, 0xfffe...0xffff, 0x110bd, 0x110cd, 0x13430...0x1343f => true,
        0x1bca0...0x1bca3, 0x1d173...0x1d17a, 0xe0000...0x10ffff => !(code >= 0xe0100 and code <= 0xe01ef),
        else => false,
    };
}

/// Percent-encoded, but for what is unreserved and for `safe`.
pub fn quote(a: Allocator, text: []const u8, safe: []const u8) Allocator.Error![]const u8 {
    var found: std.ArrayList(u8) = .empty;
    for (text) |byte| {
        if (isUnreserved(byte) or std.mem.findScalar(u8, safe, byte) != null) {
            try found.append(a, byte);
        } else {
            try found.appendSlice(a, &.{ '%', upper[byte >> 4], upper[byte & 15] });
        }
    }
    return found.items;
}

const upper = "0123456789ABCDEF";

fn isUnreserved(byte: u8) bool {
    return std.ascii.isAlphanumeric(byte) or std.mem.findScalar(u8, "_.-~", byte) != null;
}

/// What is no escape stands for itself.
pub fn unquote(a: Allocator, text: []const u8) Allocator.Error![]const u8 {
    if (std.mem.findScalar(u8, text, '%') == null) return text;
    const found = try a.alloc(u8, text.len);
    var to: usize = 0;
    var from: usize = 0;
    while (from < text.len) : (to += 1) {
        if (escaped(text[from..])) |byte| {
            found[to] = byte;
            from += 3;
        } else {
            found[to] = text[from];
            from += 1;
        }
    }
    return found[0..to];
}

fn escaped(text: []const u8) ?u8 {
    if (text.len < 3 or text[0] != '%') return null;
    const high = std.fmt.charToDigit(text[1], 16) catch return null;
    const low = std.fmt.charToDigit(text[2], 16) catch return null;
    return high << 4 | low;
}

/// A JSON string of ASCII alone, as Python writes it.
pub fn writeJson(out: *std.ArrayList(u8), a: Allocator, text: []const u8) Allocator.Error!void {
    try out.append(a, '"');
    var characters: Characters = .{ .text = text };
    while (characters.next()) |code| try writeCharacter(out, a, code);
    try out.append(a, '"');
}

fn writeCharacter(out: *std.ArrayList(u8), a: Allocator, code: u21) Allocator.Error!void {
    switch (code) {
        '"' => try out.appendSlice(a, "\\\""),
        '\\' => try out.appendSlice(a, "\\\\"),
        '\n' => try out.appendSlice(a, "\\n"),
        '\r' => try out.appendSlice(a, "\\r"),
        '\t' => try out.appendSlice(a, "\\t"),
        0x08 => try out.appendSlice(a, "\\b"),
        0x0c => try out.appendSlice(a, "\\f"),
        ' '...'!', '#'...'[', ']'...'~' => try out.append(a, @intCast(code)),
        0x10000...0x10ffff => {
            try writeUnit(out, a, @intCast(0xd800 + ((code - 0x10000) >> 10)));
            try writeUnit(out, a, @intCast(0xdc00 + ((code - 0x10000) & 0x3ff)));
        },
        else => try writeUnit(out, a, @intCast(code)),
    }
}

fn writeUnit(out: *std.ArrayList(u8), a: Allocator, unit: u16) Allocator.Error!void {
    const lower = "0123456789abcdef";
    try out.appendSlice(a, &.{
        '\\',                  'u',
        lower[unit >> 12],     lower[unit >> 8 & 15],
        lower[unit >> 4 & 15], lower[unit & 15],
    });
}

pub fn among(wanted: []const u8, texts: []const []const u8) bool {
    for (texts) |text| if (std.mem.eql(u8, text, wanted)) return true;
    return false;
}
