//! Whether a signature is good: by the host, where it can tell, else here.
//!
//! Envoy's `verify_signature` takes the key as DER (SubjectPublicKeyInfo), an ECDSA signature as DER, and all of it in a
//! protocol buffer. EdDSA it does not know.

const std = @import("std");
const Allocator = std.mem.Allocator;
const P256 = std.crypto.sign.ecdsa.EcdsaP256Sha256;
const verifying = @import("verifying.zig");

/// Null where the host cannot tell.
pub const Host = *const fn (Allocator, arguments: []const u8) ?bool;

pub const Rsa = struct { n: []const u8, e: []const u8, der: []const u8 };
pub const Ec = struct { point: [65]u8, der: []const u8 };
pub const Key = union(enum) { rsa: Rsa, ec: Ec, ed: [32]u8 };

pub fn isGood(a: Allocator, key: *const Key, signed: []const u8, signature: []const u8, host: ?Host) Allocator.Error!bool {
    switch (key.*) {
        .rsa => |own| {
            const said = if (host) |ask| ask(a, try arguments(a, own.der, signature, signed)) else null;
            return said orelse verifying.rsa(own.n, own.e, signed, signature);
        },
        .ec => |own| {
            if (signature.len != 64) return false;
            var room: [P256.Signature.der_encoded_length_max]u8 = undefined;
            const as_der = P256.Signature.fromBytes(signature[0..64].*).toDer(&room);
            const said = if (host) |ask| ask(a, try arguments(a, own.der, as_der, signed)) else null;
            return said orelse verifying.p256(&own.point, signed, signature);
        },
        .ed => |own| return verifying.ed25519(&own, signed, signature),
    }
}

/// VerifySignatureArguments of Envoy's foreign function.
fn arguments(a: Allocator, der: []const u8, signature: []const u8, signed: []const u8) Allocator.Error![]const u8 {
    var found: std.ArrayList(u8) = .empty;
    for ([_][]const u8{ "sha256", der, signature, signed }, 1..) |field, number| {
        try found.append(a, @intCast(number << 3 | 2));
        var length = field.len;
        while (length >= 0x80) : (length >>= 7) try found.append(a, @intCast(length & 0x7f | 0x80));
        try found.append(a, @intCast(length));
        try found.appendSlice(a, field);
    }
    return found.items;
}

/// VerifySignatureResult: anything but a plain yes is a no.
pub fn result(answer: []const u8) bool {
    return std.mem.startsWith(u8, answer, &.{ 0x08, 0x01 });
}
