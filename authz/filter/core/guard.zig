//! Authorization headers -> the principal, or why there is none. Tokens that were good are remembered.

const std = @import("std");
const Allocator = std.mem.Allocator;
const cache_ = @import("cache.zig");
const jwt = @import("jwt.zig");
const keyring = @import("keyring.zig");
const model = @import("access.zig");
const signature = @import("signature.zig");
const Access = model.Access;

pub const Outcome = union(enum) {
    principal: model.Principal,
    no_token,
    bad: jwt.Bad,
    unavailable,
    /// For the keys of this issuer; then ask again.
    wait: usize,
};

pub const Guard = struct {
    access: *const Access,
    /// One for each issuer.
    rings: []keyring.Keyring,
    cache: cache_.Cache,
    host: ?signature.Host,

    pub fn init(gpa: Allocator, access: *const Access, most_tokens: usize, host: ?signature.Host) Allocator.Error!Guard {
        const rings = try gpa.alloc(keyring.Keyring, access.issuers.len);
        errdefer gpa.free(rings);
        for (rings) |*ring| ring.* = .init(gpa);
        return .{ .access = access, .rings = rings, .cache = try .init(gpa, most_tokens), .host = host };
    }

    pub fn deinit(guard: *Guard, gpa: Allocator) void {
        for (guard.rings) |*ring| ring.deinit();
        gpa.free(guard.rings);
        guard.cache.deinit();
    }

    /// `waited`: whether this request has waited for keys already.
    pub fn admit(guard: *Guard, a: Allocator, authorization: model.Texts, now: f64, waited: bool) Allocator.Error!Outcome {
        const token = jwt.bearer(authorization) catch |bad| return .{ .bad = bad };
        return guard.judged(a, token orelse return .no_token, now, waited) catch |e| switch (e) {
            error.OutOfMemory => error.OutOfMemory,
            else => |bad| .{ .bad = bad },
        };
    }

    fn judged(guard: *Guard, a: Allocator, text: []const u8, now: f64, waited: bool) jwt.Error!Outcome {
        const digest = cache_.digestOf(text);
        if (guard.cache.find(&digest, now)) |known| {
            const principal, const generation = known;
            if (guard.rings[principal.issuer].generation == generation) return .{ .principal = try principal.copy(a) };
        }
        const token = try jwt.read(a, text, guard.access);
        const ring = &guard.rings[token.issuer];
        const key = switch (ring.find(token, now, waited)) {
            .key => |found| found,
            .wait => return .{ .wait = token.issuer },
            .unknown => return error.UnknownKey,
            .unavailable => return .unavailable,
        };
        if (!try signature.isGood(a, key, token.signed, token.signature, guard.host)) return error.WrongSignature;
        const principal = try jwt.principal(a, token, guard.access, now);
        const until = try jwt.expiresAt(token) + jwt.skew_s;
        guard.cache.put(&digest, principal, now, until, ring.generation);
        return .{ .principal = principal };
    }
};
