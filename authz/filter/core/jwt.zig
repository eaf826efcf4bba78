//! A bearer token -> what it says, checked. The key and the time are given.
//!
//! No address is ever taken from a token: its issuer is one of those declared, or it is refused, and `jku`, `x5u` and `jwk`
//! are not looked at.

const std = @import("std");
const Allocator = std.mem.Allocator;
const base64 = @import("base64.zig");
const json = @import("json.zig");
const model = @import("access.zig");
const text = @import("text.zig");
const Access = model.Access;
const Texts = model.Texts;
const Value = json.Value;

pub const most_bytes = 16_384;
pub const skew_s = 60;
const most_kid = 256;

/// Why a token is refused. `message` has the words, which never contain any of it.
pub const Bad = error{
    TwoHeaders,
    NoBearer,
    TooLong,
    NoJwt,
    NoBase64,
    NoJson,
    NoObject,
    SaidTwice,
    Critical,
    OtherType,
    LongKid,
    UnknownIssuer,
    ForbiddenAlgorithm,
    UnknownKey,
    WrongSignature,
    NoExpiry,
    NoBeginning,
    NoIssue,
    Expired,
    NotYet,
    OtherAudience,
    NoSubject,
};
pub const Error = Bad || error{OutOfMemory};

pub fn message(bad: Bad) []const u8 {
    return switch (bad) {
        error.TwoHeaders => "more than one Authorization header",
        error.NoBearer => "the Authorization header has no bearer token",
        error.TooLong => "the token is too long",
        error.NoJwt => "the token is no signed JWT",
        error.NoBase64 => "the token is not base64url",
        error.NoJson => "the token is not made of JSON",
        error.NoObject => "the token is not made of JSON objects",
        error.SaidTwice => "the token says something twice",
        error.Critical => "the token has a critical extension",
        error.OtherType => "the token is of another type",
        error.LongKid => "the token's kid is no short text",
        error.UnknownIssuer => "the token is from an unknown issuer",
        error.ForbiddenAlgorithm => "the token's algorithm is not allowed",
        error.UnknownKey => "the token's key is unknown",
        error.WrongSignature => "the token's signature is wrong",
        error.NoExpiry => "the token's exp is no time",
        error.NoBeginning => "the token's nbf is no time",
        error.NoIssue => "the token's iat is no time",
        error.Expired => "the token has expired",
        error.NotYet => "the token is not valid yet",
        error.OtherAudience => "the token is for another audience",
        error.NoSubject => "the token has no subject",
    };
}

/// Taken apart, and nothing in it believed yet.
pub const Token = struct {
    algorithm: model.Algorithm,
    kid: ?[]const u8,
    issuer: usize,
    claims: Value,
    signed: []const u8,
    signature: []const u8,
};

/// The token of the Authorization headers; null if there is none.
pub fn bearer(values: Texts) Bad!?[]const u8 {
    if (values.len == 0) return null;
    if (values.len > 1) return error.TwoHeaders;
    const said = text.strip(values[0]);
    const space = std.mem.findScalar(u8, said, ' ') orelse return error.NoBearer;
    const token = text.strip(said[space..]);
    if (!std.ascii.eqlIgnoreCase(said[0..space], "bearer") or token.len == 0) return error.NoBearer;
    return token;
}

pub fn read(a: Allocator, token: []const u8, access: *const Access) Error!Token {
    if (token.len > most_bytes) return error.TooLong;
    const parts = try split(token);
    const header = try object(a, parts[0]);
    const claims = try object(a, parts[1]);
    if (header.get("crit") != null or header.get("b64") != null) return error.Critical;
    if (!isOfType(header.get("typ"))) return error.OtherType;
    const kid = try shortKid(header.get("kid"));
    const issuer = issuerOf(claims, access) orelse return error.UnknownIssuer;
    const algorithm = algorithmOf(header) orelse return error.ForbiddenAlgorithm;
    if (!access.issuers[issuer].algorithms.contains(algorithm)) return error.ForbiddenAlgorithm;
    return .{
        .algorithm = algorithm,
        .kid = kid,
        .issuer = issuer,
        .claims = claims,
        .signed = token[0 .. parts[0].len + 1 + parts[1].len],
        .signature = try bytes(a, parts[2]),
    };
}

fn split(token: []const u8) Bad![3][]const u8 {
    var found: [3][]const u8 = undefined;
    var rest = std.mem.splitScalar(u8, token, '.');
    for (&found) |*part| {
        part.* = rest.next() orelse return error.NoJwt;
        if (part.len == 0) return error.NoJwt;
        for (part.*) |c| if (!std.ascii.isAlphanumeric(c) and c != '-' and c != '_') return error.NoJwt;
    }
    return if (rest.next() == null) found else error.NoJwt;
}

fn bytes(a: Allocator, part: []const u8) Error![]const u8 {
    return base64.fromUrl(a, part) catch |e| switch (e) {
        error.BadBase64 => error.NoBase64,
        error.OutOfMemory => error.OutOfMemory,
    };
}

fn object(a: Allocator, part: []const u8) Error!Value {
    const found = json.parse(a, try bytes(a, part), .refused) catch |e| return switch (e) {
        error.BadJson => error.NoJson,
        error.SaidTwice, error.OutOfMemory => |same| same,
    };
    return if (found == .object) found else error.NoObject;
}

fn isOfType(said: ?Value) bool {
    const name = (said orelse return true).asText() orelse return false;
    for ([_][]const u8{ "jwt", "at+jwt", "application/at+jwt" }) |known| {
        if (std.ascii.eqlIgnoreCase(name, known)) return true;
    }
    return false;
}

fn shortKid(said: ?Value) Bad!?[]const u8 {
    const value = said orelse return null;
    if (value == .null) return null;
    const kid = value.asText() orelse return error.LongKid;
    var characters: text.Characters = .{ .text = kid };
    for (0..most_kid + 1) |_| _ = characters.next() orelse return kid;
    return error.LongKid;
}

fn issuerOf(claims: Value, access: *const Access) ?usize {
    const said = (claims.get("iss") orelse return null).asText() orelse return null;
    for (access.issuers, 0..) |issuer, number| if (std.mem.eql(u8, issuer.issuer, said)) return number;
    return null;
}

fn algorithmOf(header: Value) ?model.Algorithm {
    const said = (header.get("alg") orelse return null).asText() orelse return null;
    return std.meta.stringToEnum(model.Algorithm, said);
}

/// Of a token whose signature is good.
pub fn principal(a: Allocator, token: Token, access: *const Access, now: f64) Error!model.Principal {
    if (try expiresAt(token) + skew_s <= now) return error.Expired;
    if (try time(token, "nbf", error.NoBeginning)) |begins| if (begins - skew_s > now) return error.NotYet;
    if (try time(token, "iat", error.NoIssue)) |issued| if (issued - skew_s > now) return error.NotYet;
    const servers = try serversOf(a, token, access);
    const said = token.claims.get("sub") orelse return error.NoSubject;
    const subject = said.asText() orelse return error.NoSubject;
    if (isBlank(subject) or !text.isPrintable(subject)) return error.NoSubject;
    return .{
        .issuer = token.issuer,
        .subject = subject,
        .scopes = try scopesOf(a, token.claims),
        .claims = try usedOf(a, token.claims, access),
        .servers = servers,
    };
}

/// Of what is printable, nothing but a space is blank.
fn isBlank(subject: []const u8) bool {
    return std.mem.trim(u8, subject, " ").len == 0;
}

pub fn expiresAt(token: Token) Bad!f64 {
    return try time(token, "exp", error.NoExpiry) orelse error.NoExpiry;
}

fn time(token: Token, name: []const u8, wrong: Bad) Bad!?f64 {
    const value = token.claims.get(name) orelse return null;
    if (value != .number) return wrong;
    const found = json.float(value.number);
    return if (found > -1e15 and found < 1e15) found else wrong;
}

/// Virtual servers have URLs of their own, for which there may be tokens; null: it is for the whole gateway.
fn serversOf(a: Allocator, token: Token, access: *const Access) Error!?Texts {
    const said = token.claims.get("aud") orelse return error.OtherAudience;
    const named: []const Value = if (said == .list) said.list else &.{said};
    const own = access.issuers[token.issuer].audience;
    const audience: Texts = if (own.len > 0) own else &.{access.resource};
    var servers: std.ArrayList([]const u8) = .empty;
    for (named) |item| {
        const one = item.asText() orelse continue;
        if (text.among(one, audience)) return null;
        const server = serverOf(one, access.resource) orelse continue;
        if (server.len > 0) try servers.append(a, try text.unquote(a, server));
    }
    if (servers.items.len == 0 or !text.among(access.resource, audience)) return error.OtherAudience;
    return servers.items;
}

fn serverOf(audience: []const u8, resource: []const u8) ?[]const u8 {
    if (!std.mem.startsWith(u8, audience, resource)) return null;
    const rest = audience[resource.len..];
    return if (std.mem.startsWith(u8, rest, "/v/")) rest[3..] else null;
}

/// `scope` is text with spaces (RFC 9068); some issuers say `scp`, as text or as a list.
fn scopesOf(a: Allocator, claims: Value) Allocator.Error!Texts {
    const said = claims.get("scope") orelse claims.get("scp") orelse return &.{};
    var found: std.ArrayList([]const u8) = .empty;
    switch (said) {
        .text => |several| {
            var rest = std.mem.splitScalar(u8, several, ' ');
            while (rest.next()) |scope| if (isScope(scope)) try found.append(a, scope);
        },
        .list => |several| for (several) |item| {
            const scope = item.asText() orelse continue;
            if (isScope(scope)) try found.append(a, scope);
        },
        else => {},
    }
    return once(found.items);
}

fn isScope(scope: []const u8) bool {
    for (scope) |c| switch (c) {
        0x21, 0x23...0x5b, 0x5d...0x7e => {},
        else => return false,
    };
    return scope.len > 0;
}

fn once(scopes: [][]const u8) Texts {
    std.mem.sortUnstable([]const u8, scopes, {}, json.before);
    var kept: usize = 0;
    for (scopes) |scope| {
        if (kept > 0 and std.mem.eql(u8, scopes[kept - 1], scope)) continue;
        scopes[kept] = scope;
        kept += 1;
    }
    return scopes[0..kept];
}

fn usedOf(a: Allocator, claims: Value, access: *const Access) Allocator.Error![]const json.Member {
    var found: std.ArrayList(json.Member) = .empty;
    for (claims.object) |member| if (access.isUsed(member.name)) try found.append(a, member);
    return found.items;
}
