//! The filter's configuration: JSON that `authz.filter_config` makes. Whatever is wrong with it, all of it is refused.

const std = @import("std");
const Allocator = std.mem.Allocator;
const json = @import("json.zig");
const Value = json.Value;
const model = @import("access.zig");
const Access = model.Access;
const Texts = model.Texts;

pub const Error = error{ BadConfig, OutOfMemory };

/// Of modern requests, whose headers say what they ask for, the body need not be looked at: the gateway compares the two.
pub const ModernBodies = enum { read, pass };

pub const Config = struct {
    access: Access,
    most_body_bytes: usize,
    modern_bodies: ModernBodies,
    most_tokens: usize,
};

/// What is wrong is the last member that was looked at.
pub const Problem = struct { member: []const u8 = "" };

pub fn read(a: Allocator, text: []const u8, problem: *Problem) Error!Config {
    const found = json.parse(a, text, .refused) catch |e| switch (e) {
        error.OutOfMemory => return error.OutOfMemory,
        error.BadJson, error.SaidTwice => return error.BadConfig,
    };
    var root: Object = try .of(found, problem);
    var access = try root.object("access");
    return .{
        .access = try readAccess(a, &access, try readPrefixes(a, &root)),
        .most_body_bytes = try root.number("most_body_bytes", 5_242_880),
        .modern_bodies = try root.choice(ModernBodies, "modern_bodies", .read),
        .most_tokens = try root.number("most_tokens", 1024),
    };
}

fn readAccess(a: Allocator, o: *Object, prefixes: []const model.Prefix) Error!Access {
    const found: Access = .{
        .resource = try o.text("resource"),
        .issuers = try o.each(a, model.Issuer, "issuers", readIssuer),
        .required_scopes = try o.texts(a, "required_scopes"),
        .operator_scopes = try o.texts(a, "operator_scopes"),
        .implied_scopes = try readListed(a, o, "implied_scopes"),
        .roles_claim = try o.texts(a, "roles_claim"),
        .rules = try o.each(a, model.Rule, "rules", readRule),
        .allowed_by_default = try o.choice(enum { allow, deny }, "default", .allow) == .allow,
        .prefixes = prefixes,
    };
    if (found.roles_claim.len == 0) return o.wrong("roles_claim");
    return found;
}

fn readPrefixes(a: Allocator, root: *Object) Error![]const model.Prefix {
    const said = try root.members("prefixes");
    const found = try a.alloc(model.Prefix, said.len);
    for (said, found) |member, *into| {
        into.* = .{ .prefix = member.name, .backend = member.value.asText() orelse return root.wrong("prefixes") };
    }
    return found;
}

fn readIssuer(a: Allocator, o: *Object) Error!model.Issuer {
    var algorithms: std.EnumSet(model.Algorithm) = .empty;
    for (try o.texts(a, "algorithms")) |name| {
        algorithms.insert(std.meta.stringToEnum(model.Algorithm, name) orelse return o.wrong("algorithms"));
    }
    var keys = try o.object("keys");
    return .{
        .issuer = try o.text("issuer"),
        .audience = try o.texts(a, "audience"),
        .algorithms = algorithms,
        .keys = .{
            .cluster = try keys.text("cluster"),
            .authority = try keys.text("authority"),
            .path = try keys.text("path"),
        },
    };
}

fn readListed(a: Allocator, o: *Object, name: []const u8) Error![]const model.Listed {
    const said = try o.members(name);
    const found = try a.alloc(model.Listed, said.len);
    for (said, found) |member, *into| {
        into.* = .{ .name = member.name, .texts = try o.textsOf(a, name, member.value) };
    }
    return found;
}

fn readRule(a: Allocator, o: *Object) Error!model.Rule {
    var match, var require, var challenge = .{ try o.object("match"), try o.object("require"), try o.object("challenge") };
    return .{
        .match = .{
            .backend = try match.maybe("backend"),
            .tool = try match.maybe("tool"),
            .prompt = try match.maybe("prompt"),
            .resource = try match.maybe("resource"),
            .method = try match.maybe("method"),
            .annotations = (try match.members("annotations")).len > 0,
        },
        .require = .{
            .scopes = try require.texts(a, "scopes"),
            .any_scope = try require.texts(a, "any_scope"),
            .roles = try require.texts(a, "roles"),
            .claims = try readListed(a, &require, "claims"),
            .never = try require.flag("never"),
        },
        .challenge = .{
            .resource_metadata = try challenge.maybe("resource_metadata"),
            .description = try challenge.maybe("description"),
        },
    };
}

/// A JSON object whose members are looked for by name; null stands for a member that is not there.
const Object = struct {
    found: []const json.Member,
    problem: *Problem,

    fn of(value: Value, problem: *Problem) error{BadConfig}!Object {
        if (value != .object) return error.BadConfig;
        return .{ .found = value.object, .problem = problem };
    }

    fn wrong(o: *Object, name: []const u8) error{BadConfig} {
        o.problem.member = name;
        return error.BadConfig;
    }

    fn get(o: *Object, name: []const u8) ?Value {
        const value = json.find(o.found, name) orelse return null;
        return if (value == .null) null else value;
    }

    fn text(o: *Object, name: []const u8) error{BadConfig}![]const u8 {
        return try o.maybe(name) orelse o.wrong(name);
    }

    fn maybe(o: *Object, name: []const u8) error{BadConfig}!?[]const u8 {
        const value = o.get(name) orelse return null;
        return value.asText() orelse o.wrong(name);
    }

    fn flag(o: *Object, name: []const u8) error{BadConfig}!bool {
        const value = o.get(name) orelse return false;
        return if (value == .boolean) value.boolean else o.wrong(name);
    }

    fn number(o: *Object, name: []const u8, default: usize) error{BadConfig}!usize {
        const value = o.get(name) orelse return default;
        if (value != .number) return o.wrong(name);
        return std.fmt.parseInt(u31, value.number, 10) catch o.wrong(name);
    }

    fn choice(o: *Object, comptime Choice: type, name: []const u8, default: Choice) error{BadConfig}!Choice {
        const said = try o.maybe(name) orelse return default;
        return std.meta.stringToEnum(Choice, said) orelse o.wrong(name);
    }

    fn members(o: *Object, name: []const u8) error{BadConfig}![]const json.Member {
        return (try o.object(name)).found;
    }

    /// Empty where there is none.
    fn object(o: *Object, name: []const u8) error{BadConfig}!Object {
        const value = o.get(name) orelse return .{ .found = &.{}, .problem = o.problem };
        return if (value == .object) .{ .found = value.object, .problem = o.problem } else o.wrong(name);
    }

    fn texts(o: *Object, a: Allocator, name: []const u8) Error!Texts {
        return o.textsOf(a, name, o.get(name) orelse return &.{});
    }

    fn textsOf(o: *Object, a: Allocator, name: []const u8, value: Value) Error!Texts {
        if (value != .list) return o.wrong(name);
        const found = try a.alloc([]const u8, value.list.len);
        for (value.list, found) |item, *into| into.* = item.asText() orelse return o.wrong(name);
        return found;
    }

    fn each(
        o: *Object,
        a: Allocator,
        comptime Item: type,
        name: []const u8,
        comptime one: fn (Allocator, *Object) Error!Item,
    ) Error![]const Item {
        const value = o.get(name) orelse return &.{};
        if (value != .list) return o.wrong(name);
        const found = try a.alloc(Item, value.list.len);
        for (value.list, found) |item, *into| {
            var object_: Object = Object.of(item, o.problem) catch return o.wrong(name);
            into.* = try one(a, &object_);
        }
        return found;
    }
};
