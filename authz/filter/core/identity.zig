//! Headers by which the gateway says to others who asks, and for what. From outside they are dropped: nobody says that of himself.

const std = @import("std");

pub const principal = "x-portico-principal";
pub const issuer = "x-portico-issuer";
pub const scopes = "x-portico-scopes";

/// What of a subject stands in a header as it is: all that can be seen, but for what escapes begin with.
pub const safe = "!\"#$&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";

/// In lower case; one that ends in `*` stands for all that begin so. `authz.identity` has the same ones.
const names = [_][]const u8{
    "x-portico-*",
    "x-mcp-verified-*",
    "x-mcp-tool",
    "x-mcp-toolname",
    "x-mcp-promptname",
    "x-mcp-resourceuri",
    "x-mcp-servername",
    "x-mcp-method",
    "x-mcp-annotation-hints",
    "x-amzn-oidc-*",
    "x-auth-request-*",
    "x-authenticated-*",
    "x-goog-iap-jwt-assertion",
    "x-forwarded-user",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-forwarded-preferred-username",
    "x-forwarded-access-token",
    "x-remote-user",
    "remote-user",
    "x-user-info",
    "x-userinfo",
};

pub fn isDropped(name: []const u8) bool {
    for (names) |known| if (isLike(name, known)) return true;
    return false;
}

fn isLike(name: []const u8, known: []const u8) bool {
    const all = std.mem.endsWith(u8, known, "*");
    const wanted = if (all) known[0 .. known.len - 1] else known;
    if (name.len < wanted.len or (!all and name.len > wanted.len)) return false;
    for (name[0..wanted.len], wanted) |character, want| if (plain(character) != want) return false;
    return true;
}

/// Underscores are dashes to many servers.
fn plain(character: u8) u8 {
    return if (character == '_') '-' else std.ascii.toLower(character);
}
