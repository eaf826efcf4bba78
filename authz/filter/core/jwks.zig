//! A set of keys as an issuer publishes it (RFC 7517) -> those of them that can be used. One that is odd is left out alone.

const std = @import("std");
const Allocator = std.mem.Allocator;
const base64 = @import("base64.zig");
const der = @import("der.zig");
const json = @import("json.zig");
const model = @import("access.zig");
const Token = @import("jwt.zig").Token;
const Value = json.Value;
const signature = @import("signature.zig");
const verifying = @import("verifying.zig");

pub const most_bytes = 524_288;
pub const most_keys = 100;
const least_rsa_bits = 2048;
const most_rsa_bytes = 2048;

pub const Error = error{ NoKeys, OutOfMemory };

pub const Jwk = struct {
    /// The algorithm that a key of this kind is for.
    kind: model.Algorithm,
    kid: ?[]const u8,
    /// Null: it is declared for something else.
    key: ?signature.Key,
};

pub fn read(a: Allocator, document: []const u8) Error![]const Jwk {
    const found = json.parse(a, document, .last_counts) catch |e| switch (e) {
        error.OutOfMemory => return error.OutOfMemory,
        error.BadJson, error.SaidTwice => return error.NoKeys,
    };
    const keys = found.get("keys") orelse return error.NoKeys;
    if (keys != .list or keys.list.len > most_keys) return error.NoKeys;
    var usable: std.ArrayList(Jwk) = .empty;
    for (keys.list) |value| if (try one(a, value)) |jwk| try usable.append(a, jwk);
    return usable.items;
}

/// Null unless a token could name it.
fn one(a: Allocator, value: Value) Allocator.Error!?Jwk {
    const kind = kindOf(value) orelse return null;
    if (!says(value, "use", "sig") or !says(value, "alg", @tagName(kind))) return null;
    const kid = if (value.get("kid")) |said| said.asText() else null;
    const key = switch (kind) {
        .RS256 => try rsaOf(a, value),
        .ES256 => try ecOf(a, value),
        .EdDSA => try edOf(a, value),
    };
    return .{ .kind = kind, .kid = kid, .key = key };
}

fn kindOf(value: Value) ?model.Algorithm {
    const kty = (value.get("kty") orelse return null).asText() orelse return null;
    if (std.mem.eql(u8, kty, "RSA")) return .RS256;
    const curve = (value.get("crv") orelse return null).asText() orelse return null;
    if (std.mem.eql(u8, kty, "EC") and std.mem.eql(u8, curve, "P-256")) return .ES256;
    if (std.mem.eql(u8, kty, "OKP") and std.mem.eql(u8, curve, "Ed25519")) return .EdDSA;
    return null;
}

/// Or says nothing of it.
fn says(value: Value, name: []const u8, wanted: []const u8) bool {
    const said = (value.get(name) orelse return true).asText() orelse return false;
    return std.mem.eql(u8, said, wanted);
}

fn rsaOf(a: Allocator, value: Value) Allocator.Error!?signature.Key {
    const n = unpadded(try bytes(a, value, "n") orelse return null);
    const e = unpadded(try bytes(a, value, "e") orelse return null);
    if (n.len == 0 or n.len > most_rsa_bytes or e.len == 0 or e.len > 8) return null;
    if (n.len * 8 - @clz(n[0]) < least_rsa_bits) return null;
    return .{ .rsa = .{ .n = n, .e = e, .der = try der.rsaKey(a, n, e) } };
}

fn ecOf(a: Allocator, value: Value) Allocator.Error!?signature.Key {
    const x = try bytes(a, value, "x") orelse return null;
    const y = try bytes(a, value, "y") orelse return null;
    if (x.len != 32 or y.len != 32) return null;
    var point: [65]u8 = undefined;
    point[0] = 4;
    @memcpy(point[1..33], x);
    @memcpy(point[33..65], y);
    if (!verifying.isP256(&point)) return null;
    return .{ .ec = .{ .point = point, .der = try der.p256Key(a, &point) } };
}

fn edOf(a: Allocator, value: Value) Allocator.Error!?signature.Key {
    const x = try bytes(a, value, "x") orelse return null;
    return if (x.len == 32) .{ .ed = x[0..32].* } else null;
}

fn bytes(a: Allocator, value: Value, name: []const u8) Allocator.Error!?[]const u8 {
    const said = (value.get(name) orelse return null).asText() orelse return null;
    return base64.fromUrl(a, std.mem.trimEnd(u8, said, "=")) catch |e| switch (e) {
        error.BadBase64 => null,
        error.OutOfMemory => error.OutOfMemory,
    };
}

fn unpadded(number: []const u8) []const u8 {
    return std.mem.trimStart(u8, number, "\x00");
}

/// The one key that fits; null if none does, or several do.
pub fn fitting(keys: []const Jwk, token: Token) ?*const signature.Key {
    var found: ?*const Jwk = null;
    for (keys) |*jwk| {
        if (jwk.kind != token.algorithm or !isNamed(jwk, token.kid)) continue;
        if (found != null) return null;
        found = jwk;
    }
    const jwk = found orelse return null;
    return if (jwk.key) |*key| key else null;
}

fn isNamed(jwk: *const Jwk, kid: ?[]const u8) bool {
    const wanted = kid orelse return true;
    return std.mem.eql(u8, jwk.kid orelse return false, wanted);
}
