//! Principal + place + what is asked for -> a refusal, or null. What every edge asks, in this order.

const std = @import("std");
const Allocator = std.mem.Allocator;
const asked_ = @import("asked.zig");
const challenge = @import("challenge.zig");
const jwt = @import("jwt.zig");
const model = @import("access.zig");
const naming = @import("naming.zig");
const policy = @import("policy.zig");
const text = @import("text.zig");
const Access = model.Access;
const Place = @import("places.zig").Place;
const Principal = model.Principal;
const Refusal = challenge.Refusal;

/// Why somebody is not known. Whether there is such a tool, it does not tell.
pub fn notAdmitted(
    a: Allocator,
    access: *const Access,
    why: ?jwt.Bad,
    place: Place,
    asked: asked_.Asked,
) Allocator.Error!Refusal {
    const about: challenge.About = .{ .server = place.server, .tool = asked.tool() };
    return if (why) |bad| challenge.badToken(a, access, bad, about) else challenge.noToken(a, access, about);
}

/// `found`: null where nobody asks for anything that would be judged.
pub fn refusal(
    a: Allocator,
    access: *const Access,
    principal: *const Principal,
    place: Place,
    found: ?asked_.Found,
) Allocator.Error!?Refusal {
    if (try entering(a, access, principal, place)) |refused| return refused;
    return switch (found orelse return null) {
        .refused => |refused| refused,
        .asked => |asked| asking(a, access, principal, place, asked),
    };
}

/// Whether it may come there at all, whatever it asks for.
fn entering(a: Allocator, access: *const Access, principal: *const Principal, place: Place) Allocator.Error!?Refusal {
    const about: challenge.About = .{ .server = place.server };
    if (principal.servers) |servers| {
        if (place.kind != .mcp or !text.among(place.server, servers)) {
            return try challenge.badToken(a, access, error.OtherAudience, about);
        }
    }
    const needed = if (place.kind == .operators) access.operator_scopes else access.required_scopes;
    const missing = try policy.lacking(a, access, principal, needed);
    if (missing.len == 0) return null;
    return try challenge.forbidden(a, access, .{ .allowed = false, .missing = missing }, about);
}

fn asking(
    a: Allocator,
    access: *const Access,
    principal: *const Principal,
    place: Place,
    asked: asked_.Asked,
) Allocator.Error!?Refusal {
    if (place.kind != .mcp or asked.method.len == 0) return null;
    const target = try naming.judgeable(a, access, asked.method, asked.name) orelse return null;
    const verdict = try policy.decide(a, access, principal, target);
    if (verdict.allowed) return null;
    const tool = if (target.kind == .tool) target.name else "";
    return try challenge.forbidden(a, access, verdict, .{ .server = place.server, .tool = tool });
}
