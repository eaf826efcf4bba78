//! An issuer's keys: kept, and asked for again, with at most one fetch under way. Who fetches is somebody else.
//!
//! Cold and unreachable: unavailable. Warm: the keys that are there go on being used while newer ones cannot be had.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Sha256 = std.crypto.hash.sha2.Sha256;
const jwks = @import("jwks.zig");
const Token = @import("jwt.zig").Token;
const Key = @import("signature.zig").Key;

/// After this, newer keys are asked for while the old ones are used.
pub const fresh_s = 600;
/// After this, the old ones are not used any more.
pub const kept_s = 86_400;
/// Unknown keys make us ask again, and no more often than this.
pub const again_s = 30;
/// So soon after a fetch there is no other for an unknown key, nor any at all if it failed.
pub const retry_s = 5;

pub const Found = union(enum) { key: *const Key, unknown, unavailable, wait };

const never = -std.math.inf(f64);

pub const Keyring = struct {
    gpa: Allocator,
    arena: std.heap.ArenaAllocator,
    keys: []const jwks.Jwk = &.{},
    digest: [Sha256.digest_length]u8 = @splat(0),
    fetched_at: f64 = never,
    tried_at: f64 = never,
    /// When an unknown key last made us ask.
    wondered_at: f64 = never,
    failed: bool = false,
    fetching: bool = false,
    /// Set for whoever fetches.
    wanted: bool = false,
    /// Another number as soon as the keys have changed.
    generation: u32 = 0,

    pub fn init(gpa: Allocator) Keyring {
        return .{ .gpa = gpa, .arena = .init(gpa) };
    }

    pub fn deinit(ring: *Keyring) void {
        ring.arena.deinit();
    }

    /// `waited`: whether this token has waited for a fetch already; it does so once.
    pub fn find(ring: *Keyring, token: Token, now: f64, waited: bool) Found {
        const age = now - ring.fetched_at;
        if (age > kept_s) return if (!waited and ring.renew(now)) .wait else .unavailable;
        if (age > fresh_s and !ring.fetching and ring.mayFetch(now)) ring.begin();
        if (jwks.fitting(ring.keys, token)) |key| return .{ .key = key };
        if (!waited and ring.mayWonder(now)) {
            ring.wondered_at = now;
            if (ring.renew(now)) return .wait;
        }
        return if (ring.failed) .unavailable else .unknown;
    }

    /// Before anybody has to wait.
    pub fn refresh(ring: *Keyring, now: f64) void {
        if (now - ring.fetched_at > fresh_s and ring.mayFetch(now)) ring.begin();
    }

    fn mayFetch(ring: *const Keyring, now: f64) bool {
        return ring.fetching or now - ring.tried_at >= retry_s;
    }

    /// Whoever sends made-up keys makes us ask no more often than whoever sends one.
    fn mayWonder(ring: *const Keyring, now: f64) bool {
        return ring.fetching or (ring.mayFetch(now) and now - ring.wondered_at >= again_s);
    }

    /// Whether there is something to wait for.
    fn renew(ring: *Keyring, now: f64) bool {
        if (!ring.fetching and ring.failed and !ring.mayFetch(now)) return false;
        ring.begin();
        return true;
    }

    fn begin(ring: *Keyring) void {
        if (ring.fetching) return;
        ring.fetching = true;
        ring.wanted = true;
    }

    /// Null: it could not be had. Whether the keys are there now and usable.
    pub fn fetched(ring: *Keyring, document: ?[]const u8, now: f64) bool {
        ring.fetching = false;
        ring.wanted = false;
        ring.tried_at = now;
        ring.failed = !ring.taken(document, now);
        return !ring.failed;
    }

    fn taken(ring: *Keyring, document: ?[]const u8, now: f64) bool {
        const text = document orelse return false;
        if (text.len > jwks.most_bytes) return false;
        var digest: [Sha256.digest_length]u8 = undefined;
        Sha256.hash(text, &digest, .{});
        if (ring.generation == 0 or !std.mem.eql(u8, &digest, &ring.digest)) {
            if (!ring.replaced(text)) return false;
            ring.digest = digest;
            ring.generation +%= 1;
        }
        ring.fetched_at = now;
        return true;
    }

    fn replaced(ring: *Keyring, text: []const u8) bool {
        var arena: std.heap.ArenaAllocator = .init(ring.gpa);
        const keys = readCopy(arena.allocator(), text) catch {
            arena.deinit();
            return false;
        };
        ring.arena.deinit();
        ring.arena = arena;
        ring.keys = keys;
        return true;
    }
};

fn readCopy(a: Allocator, text: []const u8) jwks.Error![]const jwks.Jwk {
    return jwks.read(a, try a.dupe(u8, text));
}
