//! Public keys as DER: SubjectPublicKeyInfo, which is how hosts want them.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Error = Allocator.Error;

const sequence = 0x30;
const bits = 0x03;
const integer = 0x02;
const is_rsa = "\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
const is_p256 = "\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";

pub fn rsaKey(a: Allocator, n: []const u8, e: []const u8) Error![]const u8 {
    const numbers = try tagged(a, sequence, &.{ try unsigned(a, n), try unsigned(a, e) });
    return tagged(a, sequence, &.{ is_rsa, try tagged(a, bits, &.{ "\x00", numbers }) });
}

pub fn p256Key(a: Allocator, point: []const u8) Error![]const u8 {
    return tagged(a, sequence, &.{ is_p256, try tagged(a, bits, &.{ "\x00", point }) });
}

/// `number` has no zeros in front. One that looks negative gets one.
fn unsigned(a: Allocator, number: []const u8) Error![]const u8 {
    const sign = if (number.len > 0 and number[0] & 0x80 != 0) "\x00" else "";
    return tagged(a, integer, &.{ sign, number });
}

fn tagged(a: Allocator, tag: u8, parts: []const []const u8) Error![]const u8 {
    var length: usize = 0;
    for (parts) |part| length += part.len;
    var found: std.ArrayList(u8) = .empty;
    try found.append(a, tag);
    if (length < 0x80) {
        try found.append(a, @intCast(length));
    } else if (length < 0x100) {
        try found.appendSlice(a, &.{ 0x81, @intCast(length) });
    } else {
        try found.appendSlice(a, &.{ 0x82, @intCast(length >> 8 & 0xff), @intCast(length & 0xff) });
    }
    for (parts) |part| try found.appendSlice(a, part);
    return found.items;
}
