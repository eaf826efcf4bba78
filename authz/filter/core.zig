//! The decisions, without a host: values in, values out. `filter.zig` asks them for Envoy, and tests ask them natively.

pub const access = @import("core/access.zig");
pub const asked = @import("core/asked.zig");
pub const base64 = @import("core/base64.zig");
pub const cache = @import("core/cache.zig");
pub const challenge = @import("core/challenge.zig");
pub const check = @import("core/check.zig");
pub const config = @import("core/config.zig");
pub const guard = @import("core/guard.zig");
pub const identity = @import("core/identity.zig");
pub const json = @import("core/json.zig");
pub const json_reader = @import("core/json_reader.zig");
pub const jwks = @import("core/jwks.zig");
pub const jwt = @import("core/jwt.zig");
pub const keyring = @import("core/keyring.zig");
pub const naming = @import("core/naming.zig");
pub const places = @import("core/places.zig");
pub const policy = @import("core/policy.zig");
pub const signature = @import("core/signature.zig");
pub const text = @import("core/text.zig");
