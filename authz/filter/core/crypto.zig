//! The object behind `verifying.zig`.

const std = @import("std");
const P256 = std.crypto.sign.ecdsa.EcdsaP256Sha256;
const Ed25519 = std.crypto.sign.Ed25519;
const Sha256 = std.crypto.hash.sha2.Sha256;
const certificates = std.crypto.Certificate.rsa;

pub const panic = std.debug.no_panic;

pub export fn portico_rsa(
    n: [*]const u8,
    n_size: usize,
    e: [*]const u8,
    e_size: usize,
    signed: [*]const u8,
    size: usize,
    signature: [*]const u8,
    signature_size: usize,
) bool {
    if (signature_size != n_size) return false;
    const public = certificates.PublicKey.fromBytes(e[0..e_size], n[0..n_size]) catch return false;
    switch (signature_size) {
        inline 256, 384, 512 => |length| {
            certificates.PKCS1v1_5Signature.verify(length, signature[0..length], signed[0..size], public, Sha256) catch return false;
            return true;
        },
        else => return false,
    }
}

pub export fn portico_p256(point: *const [65]u8, signed: [*]const u8, size: usize, signature: *const [64]u8) bool {
    const public = P256.PublicKey.fromSec1(point) catch return false;
    P256.Signature.fromBytes(signature.*).verify(signed[0..size], public) catch return false;
    return true;
}

pub export fn portico_is_p256(point: *const [65]u8) bool {
    _ = P256.PublicKey.fromSec1(point) catch return false;
    return true;
}

pub export fn portico_ed25519(key: *const [32]u8, signed: [*]const u8, size: usize, signature: *const [64]u8) bool {
    const public = Ed25519.PublicKey.fromBytes(key.*) catch return false;
    Ed25519.Signature.fromBytes(signature.*).verify(signed[0..size], public) catch return false;
    return true;
}
