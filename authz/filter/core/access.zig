//! Who may do what, as values: what operators declare, who a request comes from, and what it asks for.

const std = @import("std");
const Allocator = std.mem.Allocator;
const json = @import("json.zig");

pub const Texts = []const []const u8;

pub const Algorithm = enum { RS256, ES256, EdDSA };

/// Where an issuer's keys are: a path at an Envoy cluster.
pub const Source = struct { cluster: []const u8, authority: []const u8, path: []const u8 };

pub const Issuer = struct {
    issuer: []const u8,
    /// One of these must be in a token. Empty: the gateway's own resource.
    audience: Texts,
    algorithms: std.EnumSet(Algorithm),
    keys: Source,
};

/// All that is said must fit. Names are globs of `*` and `?`.
pub const Match = struct {
    backend: ?[]const u8 = null,
    tool: ?[]const u8 = null,
    prompt: ?[]const u8 = null,
    resource: ?[]const u8 = null,
    method: ?[]const u8 = null,
    /// Whether a rule looks at annotations, which nobody knows here.
    annotations: bool = false,
};

/// A claim, and the values of which it must have one; or a scope, and those that whoever has it has as well.
pub const Listed = struct { name: []const u8, texts: Texts };

pub const Require = struct {
    scopes: Texts = &.{},
    any_scope: Texts = &.{},
    roles: Texts = &.{},
    claims: []const Listed = &.{},
    never: bool = false,
};

/// What a rule's refusal says, in place of what the gateway would.
pub const Challenge = struct { resource_metadata: ?[]const u8 = null, description: ?[]const u8 = null };

pub const Rule = struct { match: Match = .{}, require: Require = .{}, challenge: Challenge = .{} };

pub const Prefix = struct { prefix: []const u8, backend: []const u8 };

pub const Access = struct {
    /// The URL that tokens are for: the gateway's /mcp.
    resource: []const u8,
    issuers: []const Issuer,
    required_scopes: Texts = &.{},
    operator_scopes: Texts = &.{},
    implied_scopes: []const Listed = &.{},
    roles_claim: Texts = &.{"roles"},
    rules: []const Rule = &.{},
    allowed_by_default: bool = true,
    /// Of backends.
    prefixes: []const Prefix = &.{},

    pub fn baseUrl(access: *const Access) []const u8 {
        const resource = access.resource;
        return if (std.mem.endsWith(u8, resource, "/mcp")) resource[0 .. resource.len - 4] else resource;
    }

    pub fn isUsed(access: *const Access, claim: []const u8) bool {
        for (access.rules) |rule| {
            if (rule.require.roles.len > 0 and std.mem.eql(u8, access.roles_claim[0], claim)) return true;
            for (rule.require.claims) |wanted| if (std.mem.eql(u8, wanted.name, claim)) return true;
        }
        return false;
    }
};

pub const Principal = struct {
    /// One of Access's.
    issuer: usize,
    subject: []const u8,
    /// Sorted, and each once.
    scopes: Texts,
    /// Those that rules look at.
    claims: []const json.Member,
    /// The virtual servers that its token is for; null: the whole gateway.
    servers: ?Texts,

    /// Nothing of the copy is shared.
    pub fn copy(principal: Principal, a: Allocator) Allocator.Error!Principal {
        return .{
            .issuer = principal.issuer,
            .subject = try a.dupe(u8, principal.subject),
            .scopes = try copyTexts(principal.scopes, a),
            .claims = try json.copyMembers(principal.claims, a),
            .servers = if (principal.servers) |servers| try copyTexts(servers, a) else null,
        };
    }
};

fn copyTexts(texts: Texts, a: Allocator) Allocator.Error!Texts {
    const found = try a.alloc([]const u8, texts.len);
    for (texts, found) |text, *into| into.* = try a.dupe(u8, text);
    return found;
}

pub const Kind = enum { none, tool, prompt, resource };

pub const Target = struct {
    method: []const u8,
    backend: []const u8 = "",
    kind: Kind = .none,
    /// As exposed.
    name: []const u8 = "",
    upstream_name: []const u8 = "",
};
