//! Signatures checked here. In the filter this is an object of its own, made for size: it is most of the code, and the
//! standard library's, so that what is made with all safety checks is what reads hostile input.

const builtin = @import("builtin");

const linked = struct {
    extern fn portico_rsa(
        n: [*]const u8,
        n_size: usize,
        e: [*]const u8,
        e_size: usize,
        signed: [*]const u8,
        size: usize,
        signature: [*]const u8,
        signature_size: usize,
    ) bool;
    extern fn portico_p256(point: *const [65]u8, signed: [*]const u8, size: usize, signature: *const [64]u8) bool;
    extern fn portico_is_p256(point: *const [65]u8) bool;
    extern fn portico_ed25519(key: *const [32]u8, signed: [*]const u8, size: usize, signature: *const [64]u8) bool;
};
const own = if (builtin.cpu.arch.isWasm()) linked else @import("crypto.zig");

/// Of 2048, 3072 or 4096 bits; others only a host can check. Neither number begins with a zero.
pub fn rsa(n: []const u8, e: []const u8, signed: []const u8, signature: []const u8) bool {
    return own.portico_rsa(n.ptr, n.len, e.ptr, e.len, signed.ptr, signed.len, signature.ptr, signature.len);
}

pub fn p256(point: *const [65]u8, signed: []const u8, signature: []const u8) bool {
    return signature.len == 64 and own.portico_p256(point, signed.ptr, signed.len, signature[0..64]);
}

pub fn ed25519(key: *const [32]u8, signed: []const u8, signature: []const u8) bool {
    return signature.len == 64 and own.portico_ed25519(key, signed.ptr, signed.len, signature[0..64]);
}

/// Whether it is a point of the curve.
pub fn isP256(point: *const [65]u8) bool {
    return own.portico_is_p256(point);
}
