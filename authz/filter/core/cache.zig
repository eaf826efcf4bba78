//! Tokens that were found to be good, by their digest: for a while, until they expire or the issuer's keys change.
//!
//! A table of fixed size in which a token has a few places: what is there longest makes room. What one may take up is limited
//! by what a token may be.

const std = @import("std");
const Allocator = std.mem.Allocator;
const model = @import("access.zig");
const Sha256 = std.crypto.hash.sha2.Sha256;

/// After this a token is looked at again, and so is the age of the keys.
pub const held_s = 300;
const ways = 4;

pub const Digest = [Sha256.digest_length]u8;

pub fn digestOf(token: []const u8) Digest {
    var digest: Digest = undefined;
    Sha256.hash(token, &digest, .{});
    return digest;
}

const Entry = struct {
    digest: Digest,
    /// Holds all that the principal points to.
    arena: std.heap.ArenaAllocator.State,
    principal: model.Principal,
    since: f64,
    until: f64,
    generation: u32,
};

pub const Cache = struct {
    gpa: Allocator,
    /// Some places at a time belong together.
    places: []?Entry,

    /// At least `most` tokens are kept, if they are spread well; `0` keeps none.
    pub fn init(gpa: Allocator, most: usize) Allocator.Error!Cache {
        const wanted = (most + ways - 1) / ways;
        const sets = if (most == 0) 0 else std.math.ceilPowerOfTwo(usize, wanted) catch return error.OutOfMemory;
        const places = try gpa.alloc(?Entry, sets * ways);
        @memset(places, null);
        return .{ .gpa = gpa, .places = places };
    }

    pub fn deinit(cache: *Cache) void {
        for (cache.places) |*place| cache.drop(place);
        cache.gpa.free(cache.places);
    }

    /// Good until the next token is put in. The generation is the one that the keys of its issuer had.
    pub fn find(cache: *Cache, digest: *const Digest, now: f64) ?struct { *const model.Principal, u32 } {
        for (cache.set(digest)) |*place| {
            const entry = if (place.*) |*own| own else continue;
            if (!std.mem.eql(u8, &entry.digest, digest)) continue;
            if (now >= entry.until) return null;
            return .{ &entry.principal, entry.generation };
        }
        return null;
    }

    pub fn put(cache: *Cache, digest: *const Digest, principal: model.Principal, now: f64, until: f64, generation: u32) void {
        const places = cache.set(digest);
        if (places.len == 0) return;
        const place = roomFor(places, digest);
        cache.drop(place);
        var arena: std.heap.ArenaAllocator = .init(cache.gpa);
        const own = principal.copy(arena.allocator()) catch return arena.deinit();
        place.* = .{
            .digest = digest.*,
            .arena = arena.state,
            .principal = own,
            .since = now,
            .until = @min(until, now + held_s),
            .generation = generation,
        };
    }

    pub fn count(cache: *const Cache) usize {
        var found: usize = 0;
        for (cache.places) |place| found += @intFromBool(place != null);
        return found;
    }

    fn set(cache: *Cache, digest: *const Digest) []?Entry {
        if (cache.places.len == 0) return cache.places;
        const number = std.mem.readInt(u32, digest[0..4], .little) & (cache.places.len / ways - 1);
        return cache.places[number * ways ..][0..ways];
    }

    fn drop(cache: *Cache, place: *?Entry) void {
        if (place.*) |entry| entry.arena.promote(cache.gpa).deinit();
        place.* = null;
    }
};

/// Its own place, else an empty one, else the oldest one's.
fn roomFor(places: []?Entry, digest: *const Digest) *?Entry {
    var found = &places[0];
    for (places) |*place| {
        const entry = if (place.*) |*own| own else {
            if (found.* != null) found = place;
            continue;
        };
        if (std.mem.eql(u8, &entry.digest, digest)) return place;
        if (found.*) |oldest| if (entry.since < oldest.since) {
            found = place;
        };
    }
    return found;
}
