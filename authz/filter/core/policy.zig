//! Principal + target + rules -> verdict. Deterministic: the first rule that fits decides.
//!
//! What every request needs, whatever it asks for, `check` looks at before.

const std = @import("std");
const Allocator = std.mem.Allocator;
const json = @import("json.zig");
const model = @import("access.zig");
const text = @import("text.zig");
const Access = model.Access;
const Principal = model.Principal;
const Target = model.Target;
const Texts = model.Texts;

pub const Verdict = struct {
    allowed: bool,
    /// The scopes that would change it.
    missing: Texts = &.{},
    /// As the rule has it that decided.
    challenge: model.Challenge = .{},
};

pub fn decide(a: Allocator, access: *const Access, principal: *const Principal, target: Target) Allocator.Error!Verdict {
    for (access.rules) |rule| {
        if (rule.match.annotations or !fits(rule.match, target)) continue;
        var verdict = try judged(a, access, principal, target, rule.require);
        verdict.challenge = rule.challenge;
        return verdict;
    }
    return .{ .allowed = access.allowed_by_default or target.kind == .none };
}

/// Whether who does not know the target's annotations can not tell which rule decides.
pub fn dependsOnAnnotations(access: *const Access, target: Target) bool {
    for (access.rules) |rule| if (fits(rule.match, target)) return rule.match.annotations;
    return false;
}

/// Those of the scopes that the principal has neither itself nor through another one.
pub fn lacking(a: Allocator, access: *const Access, principal: *const Principal, scopes: Texts) Allocator.Error!Texts {
    if (scopes.len == 0) return &.{};
    const held = try heldBy(a, access, principal);
    var found: std.ArrayList([]const u8) = .empty;
    for (scopes) |scope| if (!text.among(scope, held)) try found.append(a, scope);
    return found.items;
}

fn heldBy(a: Allocator, access: *const Access, principal: *const Principal) Allocator.Error!Texts {
    if (access.implied_scopes.len == 0) return principal.scopes;
    var held: std.ArrayList([]const u8) = .empty;
    try held.appendSlice(a, principal.scopes);
    var next: usize = 0;
    while (next < held.items.len) : (next += 1) {
        for (access.implied_scopes) |implied| {
            if (!std.mem.eql(u8, implied.name, held.items[next])) continue;
            for (implied.texts) |scope| if (!text.among(scope, held.items)) try held.append(a, scope);
        }
    }
    return held.items;
}

/// But for annotations.
fn fits(match: model.Match, target: Target) bool {
    return isNamed(match.tool, .tool, target) and
        isNamed(match.prompt, .prompt, target) and
        isNamed(match.resource, .resource, target) and
        isLike(match.backend, target.backend) and
        isLike(match.method, target.method);
}

fn isNamed(pattern: ?[]const u8, kind: model.Kind, target: Target) bool {
    return pattern == null or (target.kind == kind and glob(pattern.?, target.name));
}

fn isLike(pattern: ?[]const u8, name: []const u8) bool {
    return pattern == null or glob(pattern.?, name);
}

/// `*` is any text, `?` any one character, all else itself.
pub fn glob(pattern: []const u8, name: []const u8) bool {
    var wanted: text.Characters = .{ .text = pattern };
    var found: text.Characters = .{ .text = name };
    var star: ?text.Characters = null;
    var behind = found;
    while (true) {
        const want = wanted.next();
        if (want == '*') {
            star = wanted;
            behind = found;
            continue;
        }
        const got = found.next();
        if (want == null and got == null) return true;
        if (want != null and got != null and (want == '?' or want == got)) continue;
        // The last star takes one character more, if there is one.
        wanted = star orelse return false;
        _ = behind.next() orelse return false;
        found = behind;
    }
}

fn judged(
    a: Allocator,
    access: *const Access,
    principal: *const Principal,
    target: Target,
    require: model.Require,
) Allocator.Error!Verdict {
    if (require.never) return .{ .allowed = false };
    if (!try hasClaims(a, principal, require)) return .{ .allowed = false };
    if (!try hasRole(a, access, principal, target, require)) return .{ .allowed = false };
    const missing = try withOneOf(a, access, principal, require);
    return .{ .allowed = missing.len == 0, .missing = missing };
}

fn withOneOf(a: Allocator, access: *const Access, principal: *const Principal, require: model.Require) Allocator.Error!Texts {
    const missing = try lacking(a, access, principal, require.scopes);
    const one_of = require.any_scope;
    if (one_of.len == 0 or (try lacking(a, access, principal, one_of)).len < one_of.len) return missing;
    if (text.among(one_of[0], missing)) return missing;
    return std.mem.concat(a, []const u8, &.{ missing, one_of[0..1] });
}

fn hasClaims(a: Allocator, principal: *const Principal, require: model.Require) Allocator.Error!bool {
    for (require.claims) |wanted| {
        const said = json.find(principal.claims, wanted.name) orelse return false;
        if (!meet(try textsOf(a, said), wanted.texts)) return false;
    }
    return true;
}

fn hasRole(
    a: Allocator,
    access: *const Access,
    principal: *const Principal,
    target: Target,
    require: model.Require,
) Allocator.Error!bool {
    if (require.roles.len == 0) return true;
    var found: json.Value = .{ .object = principal.claims };
    for (access.roles_claim) |step| {
        const name = if (std.mem.eql(u8, step, "{backend}")) target.backend else step;
        found = found.get(name) orelse return false;
    }
    const said = try textsOf(a, found);
    for (require.roles) |role| if (text.among(try filled(a, role, target), said)) return true;
    return false;
}

fn meet(one: Texts, other: Texts) bool {
    for (one) |item| if (text.among(item, other)) return true;
    return false;
}

/// In one go: what a name contains is not filled in again.
fn filled(a: Allocator, role: []const u8, target: Target) Allocator.Error![]const u8 {
    const own = target.upstream_name;
    const values = .{ .{ "{tool}", own }, .{ "{prompt}", own }, .{ "{backend}", target.backend } };
    var found: std.ArrayList(u8) = .empty;
    var at: usize = 0;
    next: while (at < role.len) {
        inline for (values) |value| if (std.mem.startsWith(u8, role[at..], value[0])) {
            try found.appendSlice(a, value[1]);
            at += value[0].len;
            continue :next;
        };
        try found.append(a, role[at]);
        at += 1;
    }
    return found.items;
}

/// A claim's values: itself if it is text, its entries if it is a list, nothing otherwise.
fn textsOf(a: Allocator, value: json.Value) Allocator.Error!Texts {
    const several: []const json.Value = if (value == .list) value.list else &.{value};
    var found: std.ArrayList([]const u8) = .empty;
    for (several) |item| switch (item) {
        .text => |said| try found.append(a, said),
        .boolean => |said| try found.append(a, if (said) "true" else "false"),
        .number => |said| if (item.isInteger()) try found.append(a, if (std.mem.eql(u8, said, "-0")) "0" else said),
        else => {},
    };
    return found.items;
}
