//! The steps of reading JSON, one at a time: for whoever wants all of it as a tree, and for whoever skips most of it.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// Of what is skipped.
pub const most_skipped_depth = 512;
/// Python refuses longer ones, and so does the gateway.
const most_digits = 4300;

const Error = error{ BadJson, OutOfMemory };

pub const Reader = struct {
    /// Valid UTF-8.
    text: []const u8,
    at: usize = 0,

    pub fn space(r: *Reader) void {
        while (r.at < r.text.len) : (r.at += 1) switch (r.text[r.at]) {
            ' ', '\t', '\n', '\r' => {},
            else => return,
        };
    }

    pub fn peek(r: *Reader) error{BadJson}!u8 {
        return if (r.at < r.text.len) r.text[r.at] else error.BadJson;
    }

    pub fn taken(r: *Reader, character: u8) bool {
        if (r.at >= r.text.len or r.text[r.at] != character) return false;
        r.at += 1;
        return true;
    }

    pub fn expect(r: *Reader, character: u8) error{BadJson}!void {
        if (!r.taken(character)) return error.BadJson;
    }

    pub fn end(r: *Reader) error{BadJson}!void {
        r.space();
        if (r.at != r.text.len) return error.BadJson;
    }

    pub fn word(r: *Reader, wanted: []const u8) error{BadJson}!void {
        if (!std.mem.startsWith(u8, r.text[r.at..], wanted)) return error.BadJson;
        r.at += wanted.len;
    }

    /// As it is written.
    pub fn number(r: *Reader) error{BadJson}![]const u8 {
        const start = r.at;
        _ = r.taken('-');
        const whole = r.at;
        if (!r.taken('0')) try r.digits();
        const long = r.at - whole > most_digits;
        const integer = r.at;
        if (r.taken('.')) try r.digits();
        if (r.taken('e') or r.taken('E')) {
            if (!r.taken('-')) _ = r.taken('+');
            try r.digits();
        }
        if (long and r.at == integer) return error.BadJson;
        return r.text[start..r.at];
    }

    fn digits(r: *Reader) error{BadJson}!void {
        const start = r.at;
        while (r.at < r.text.len and std.ascii.isDigit(r.text[r.at])) r.at += 1;
        if (r.at == start) return error.BadJson;
    }

    /// A member's, and the colon behind it.
    pub fn name(r: *Reader, a: Allocator) Error![]const u8 {
        r.space();
        const found = try r.string(a);
        r.space();
        try r.expect(':');
        return found;
    }

    /// A part of the text itself where nothing in it is escaped.
    pub fn string(r: *Reader, a: Allocator) Error![]const u8 {
        const written = try r.quoted();
        if (std.mem.findScalar(u8, written, '\\') == null) return written;
        const room = try a.alloc(u8, written.len);
        return room[0..unescaped(written, room)];
    }

    /// What stands between the quotes, with all escapes known to be good.
    fn quoted(r: *Reader) error{BadJson}![]const u8 {
        try r.expect('"');
        const start = r.at;
        while (true) {
            const character = try r.peek();
            r.at += 1;
            if (character == '"') return r.text[start .. r.at - 1];
            if (character < 0x20) return error.BadJson;
            if (character == '\\') try r.escape();
        }
    }

    fn escape(r: *Reader) error{BadJson}!void {
        const character = try r.peek();
        r.at += 1;
        switch (character) {
            '"', '\\', '/', 'b', 'f', 'n', 'r', 't' => {},
            'u' => {
                if (r.text.len - r.at < 4) return error.BadJson;
                for (r.text[r.at..][0..4]) |digit| if (!std.ascii.isHex(digit)) return error.BadJson;
                r.at += 4;
            },
            else => return error.BadJson,
        }
    }

    /// A value of any kind, without recursion.
    pub fn skip(r: *Reader) error{BadJson}!void {
        var open: Nesting = .{};
        while (true) {
            r.space();
            switch (try r.peek()) {
                '{' => if (try r.opened('}')) {
                    try open.push('}');
                    try r.skipName();
                    continue;
                },
                '[' => if (try r.opened(']')) {
                    try open.push(']');
                    continue;
                },
                else => |first| try r.skipScalar(first),
            }
            while (open.depth > 0) {
                r.space();
                if (r.taken(',')) {
                    if (open.closing() == '}') try r.skipName();
                    break;
                }
                try r.expect(open.closing());
                open.depth -= 1;
            } else return;
        }
    }

    /// Whether something is in it.
    fn opened(r: *Reader, closing: u8) error{BadJson}!bool {
        r.at += 1;
        r.space();
        return !r.taken(closing);
    }

    fn skipName(r: *Reader) error{BadJson}!void {
        r.space();
        _ = try r.quoted();
        r.space();
        try r.expect(':');
    }

    fn skipScalar(r: *Reader, first: u8) error{BadJson}!void {
        switch (first) {
            '"' => _ = try r.quoted(),
            't' => try r.word("true"),
            'f' => try r.word("false"),
            'n' => try r.word("null"),
            else => _ = try r.number(),
        }
    }
};

const Nesting = struct {
    depth: usize = 0,
    closings: [most_skipped_depth]u8 = undefined,

    fn push(n: *Nesting, closes: u8) error{BadJson}!void {
        if (n.depth == most_skipped_depth) return error.BadJson;
        n.closings[n.depth] = closes;
        n.depth += 1;
    }

    fn closing(n: *const Nesting) u8 {
        return n.closings[n.depth - 1];
    }
};

/// How much of `room`, which is as long as what is written, it takes.
fn unescaped(written: []const u8, room: []u8) usize {
    var from: usize = 0;
    var to: usize = 0;
    while (from < written.len) {
        if (written[from] != '\\') {
            room[to] = written[from];
            from += 1;
            to += 1;
        } else if (written[from + 1] == 'u') {
            to += wtf8(codeAt(written, &from), room[to..]);
        } else {
            room[to] = plain(written[from + 1]);
            from += 2;
            to += 1;
        }
    }
    return to;
}

fn plain(escaped: u8) u8 {
    return switch (escaped) {
        'b' => 0x08,
        'f' => 0x0c,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        else => escaped,
    };
}

/// Of one `\uXXXX`, or of two that make a pair.
fn codeAt(written: []const u8, from: *usize) u21 {
    const first = hex(written[from.* + 2 ..][0..4]);
    from.* += 6;
    const rest = written[from.*..];
    if (first < 0xd800 or first > 0xdbff or !std.mem.startsWith(u8, rest, "\\u")) return first;
    const second = hex(rest[2..6]);
    if (second < 0xdc00 or second > 0xdfff) return first;
    from.* += 6;
    return 0x10000 + ((@as(u21, first) - 0xd800) << 10) + (second - 0xdc00);
}

fn hex(digits: *const [4]u8) u16 {
    var found: u16 = 0;
    for (digits) |digit| found = found << 4 | (std.fmt.charToDigit(digit, 16) catch 0);
    return found;
}

pub fn wtf8(code: u21, room: []u8) usize {
    return std.unicode.wtf8Encode(code, room) catch 0;
}
