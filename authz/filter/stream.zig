//! One request, from its headers until it may go on or is refused. Whatever goes wrong on the way, it does not go on.

const std = @import("std");
const Allocator = std.mem.Allocator;
const core = @import("core.zig");
const host = @import("host.zig");
const Setup = @import("setup.zig").Setup;

/// Of whoever is refused anyway, no more than this is read, for the id that the refusal names.
const most_of_strangers = 65_536;

pub const Action = enum(u32) { go_on = 0, wait = 1 };

pub const Stream = struct {
    setup: *Setup,
    arena: std.heap.ArenaAllocator,
    place: core.places.Place = .{ .kind = .operators },
    authorization: core.access.Texts = &.{},
    headers: core.asked.Headers = .{},
    /// Null until it is known.
    outcome: ?core.guard.Outcome = null,
    /// What is asked for; null until it is known, and where nothing is.
    found: ?core.asked.Found = null,
    /// The body is being waited for.
    reading: bool = false,
    /// Of the body, as its client says.
    announced: usize = 0,
    /// Of the body, as far as it is here.
    size: usize = 0,
    /// Nothing more is to be decided.
    done: ?Action = null,

    pub fn init(setup: *Setup) Stream {
        return .{ .setup = setup.used(), .arena = .init(host.gpa) };
    }

    pub fn deinit(stream: *Stream) void {
        stream.arena.deinit();
        stream.setup.unused();
    }

    pub fn onHeaders(stream: *Stream, ends: bool) Action {
        return stream.begun(ends) catch stream.failed();
    }

    pub fn onBody(stream: *Stream, size: usize, ends: bool) Action {
        if (stream.done) |action| return action;
        if (!stream.reading) return .wait;
        stream.size = size;
        return stream.read(size, ends) catch stream.failed();
    }

    pub fn onTrailers(stream: *Stream) Action {
        return stream.onBody(stream.size, true);
    }

    /// With the keys it has waited for, or without.
    pub fn onKeys(stream: *Stream) Action {
        return stream.decided(true) catch stream.failed();
    }

    pub fn waitsFor(stream: *const Stream, issuer: usize) bool {
        const outcome = stream.outcome orelse return false;
        return stream.done == null and outcome == .wait and outcome.wait == issuer;
    }

    fn begun(stream: *Stream, ends: bool) Allocator.Error!Action {
        const posted = try stream.takeHeaders();
        if (stream.place.kind == .open) return stream.ended(.go_on);
        if (posted and stream.place.kind == .mcp) {
            const passes = stream.setup.config.modern_bodies == .pass and stream.headers.isModern();
            stream.reading = !ends and !passes;
            if (!stream.reading) stream.found = try core.asked.byHeaders(stream.arena.allocator(), &stream.headers);
        }
        const action = try stream.decided(false);
        return if (stream.reading) stream.read(stream.announced, false) else action;
    }

    /// Keeps what is needed of them, and drops what nobody may say of himself. Whether something is posted.
    fn takeHeaders(stream: *Stream) Allocator.Error!bool {
        const a = stream.arena.allocator();
        const given = host.headers(.request_headers) orelse return false;
        defer given.free();
        var verb: []const u8 = "";
        var path: []const u8 = "";
        var tokens: std.ArrayList([]const u8) = .empty;
        var pairs: host.Pairs = .of(given.data);
        while (pairs.next()) |pair| {
            const name, const value = pair;
            if (std.mem.eql(u8, name, ":method")) verb = value;
            if (std.mem.eql(u8, name, "content-length")) stream.announced = sizeOf(value);
            if (std.mem.eql(u8, name, ":path")) path = try a.dupe(u8, value);
            if (std.ascii.eqlIgnoreCase(name, "authorization")) try tokens.append(a, try a.dupe(u8, value));
            if (std.ascii.startsWithIgnoreCase(name, "mcp-")) stream.headers.take(name, try a.dupe(u8, value));
            if (core.identity.isDropped(name)) host.removeHeader(name);
        }
        stream.authorization = tokens.items;
        stream.place = try core.places.place(a, verb, path);
        return std.mem.eql(u8, verb, "POST");
    }

    fn read(stream: *Stream, size: usize, ends: bool) Allocator.Error!Action {
        const a = stream.arena.allocator();
        const known = stream.outcome.? == .principal or stream.outcome.? == .wait;
        const most = stream.setup.config.most_body_bytes;
        if (size > if (known) most else @min(most, most_of_strangers)) {
            stream.found = if (known) .{ .refused = try core.asked.tooLarge(a, most) } else .{ .asked = .{} };
        } else if (ends) {
            stream.found = try stream.askedByBody(size);
        } else {
            return .wait;
        }
        stream.reading = false;
        return if (stream.outcome.? == .wait) .wait else stream.concluded();
    }

    fn askedByBody(stream: *Stream, size: usize) Allocator.Error!core.asked.Found {
        const body = host.buffer(.request_body, size) orelse return error.OutOfMemory;
        defer body.free();
        if (body.data.len != size) return error.OutOfMemory;
        var arena: std.heap.ArenaAllocator = .init(host.gpa);
        defer arena.deinit();
        return core.asked.copy(stream.arena.allocator(), try core.asked.byBody(arena.allocator(), &stream.headers, body.data));
    }

    fn decided(stream: *Stream, waited: bool) Allocator.Error!Action {
        const a = stream.arena.allocator();
        stream.outcome = try stream.setup.guard.admit(a, stream.authorization, host.now(), waited);
        return if (stream.reading or stream.outcome.? == .wait) .wait else stream.concluded();
    }

    fn concluded(stream: *Stream) Allocator.Error!Action {
        const a = stream.arena.allocator();
        const access = &stream.setup.config.access;
        const found: core.asked.Asked = if (stream.found) |found| (if (found == .asked) found.asked else .{}) else .{};
        const why = switch (stream.outcome.?) {
            .principal => |*principal| try core.check.refusal(a, access, principal, stream.place, stream.found),
            .no_token => try core.check.notAdmitted(a, access, null, stream.place, found),
            .bad => |bad| try core.check.notAdmitted(a, access, bad, stream.place, found),
            .unavailable, .wait => core.challenge.unavailable(),
        };
        if (why) |refusal| return stream.refused(refusal, found.id);
        try stream.introduce(&stream.outcome.?.principal);
        return stream.ended(.go_on);
    }

    /// Says to whoever is behind who asks.
    fn introduce(stream: *Stream, principal: *const core.access.Principal) Allocator.Error!void {
        const a = stream.arena.allocator();
        host.setHeader(core.identity.principal, try core.text.quote(a, principal.subject, core.identity.safe));
        host.setHeader(core.identity.issuer, stream.setup.config.access.issuers[principal.issuer].issuer);
        host.setHeader(core.identity.scopes, try std.mem.join(a, " ", principal.scopes));
    }

    fn refused(stream: *Stream, refusal: core.challenge.Refusal, id: []const u8) Allocator.Error!Action {
        const a = stream.arena.allocator();
        host.log(.info, "portico: refused with {d}: {s}", .{ refusal.status, refusal.message });
        var headers: std.ArrayList(host.Header) = .empty;
        try headers.append(a, .{ "content-type", "application/json" });
        if (refusal.challenge.len > 0) try headers.append(a, .{ "www-authenticate", refusal.challenge });
        if (refusal.status == 503) try headers.append(a, .{ "retry-after", "5" });
        try host.reply(a, refusal.status, headers.items, try core.challenge.body(a, refusal, id));
        return stream.ended(.wait);
    }

    fn ended(stream: *Stream, action: Action) Action {
        stream.done = action;
        return action;
    }

    /// What is no number is very large.
    fn sizeOf(value: []const u8) usize {
        return std.fmt.parseInt(u32, value, 10) catch std.math.maxInt(u32);
    }

    /// There is no memory, or the host does not show what it has.
    fn failed(stream: *Stream) Action {
        host.refuse();
        return stream.ended(.wait);
    }
};
