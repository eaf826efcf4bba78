//! base64url without padding, of which only one text stands for given bytes; and the base64 of header values.

const std = @import("std");
const Allocator = std.mem.Allocator;

pub const Error = error{ BadBase64, OutOfMemory };

const url = std.base64.url_safe_no_pad;

pub fn fromUrl(a: Allocator, text: []const u8) Error![]const u8 {
    const size = url.Decoder.calcSizeForSlice(text) catch return error.BadBase64;
    const found = try a.alloc(u8, size);
    url.Decoder.decode(found, text) catch return error.BadBase64;
    return if (isCanonical(text)) found else error.BadBase64;
}

/// What is left over in the last character must be zero.
fn isCanonical(text: []const u8) bool {
    const unused: u8 = switch (text.len % 4) {
        0 => return true,
        2 => 0b1111,
        3 => 0b11,
        else => return false,
    };
    const last = std.mem.findScalar(u8, &url.alphabet_chars, text[text.len - 1]) orelse return false;
    return last & unused == 0;
}

/// Padded, in the other alphabet; what is left over does not matter there.
pub fn fromStandard(a: Allocator, text: []const u8) Error![]const u8 {
    if (text.len % 4 != 0) return error.BadBase64;
    const bare = std.mem.trimEnd(u8, text, "=");
    if (text.len - bare.len > 2 or bare.len % 4 == 1) return error.BadBase64;
    const found = try a.alloc(u8, bare.len / 4 * 3 + (bare.len % 4) * 3 / 4);
    var bits: u32 = 0;
    var held: u5 = 0;
    var at: usize = 0;
    for (bare) |character| {
        bits = (bits << 6 | (digit(character) orelse return error.BadBase64)) & 0xffff;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        found[at] = @truncate(bits >> held);
        at += 1;
    }
    return found[0..at];
}

fn digit(character: u8) ?u32 {
    const found = std.mem.findScalar(u8, &std.base64.standard_alphabet_chars, character) orelse return null;
    return @intCast(found);
}
