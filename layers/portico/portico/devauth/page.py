"""What users see: one page, without scripts. Everything that is not written here is escaped."""

import base64
import hashlib
from html import escape
from typing import Final

from portico.devauth.authorization import MOST_SUBJECT, Asked
from portico.devauth.model import OFFLINE
from portico.devauth.redirects import place, source

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5b6675;--paper:#f3f5f8;--card:#fff;--line:#d9dfe7;--go:#1f6feb;--field:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e8ecf2;--soft:#9aa5b4;--paper:#0f141b;--card:#181f29;--line:#2d3744;--go:#4493f8;--field:#0f141b}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{width:100%;max-width:28rem;background:var(--card);border:1px solid var(--line);border-radius:14px;padding:1.75rem;box-shadow:0 8px 30px rgb(0 0 0/.08)}
h1{margin:0 0 .35rem;font-size:1.3rem;line-height:1.3;overflow-wrap:anywhere}
p{margin:.35rem 0;color:var(--soft)}
dl{display:grid;grid-template-columns:auto 1fr;gap:.3rem .9rem;margin:1.1rem 0;padding:.9rem 0;border:solid var(--line);border-width:1px 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere;font-family:ui-monospace,monospace;font-size:.875rem;line-height:1.7}
fieldset{border:0;margin:0 0 1.1rem;padding:0}legend{padding:0;margin-bottom:.4rem;font-weight:600}
.scope{display:flex;gap:.6rem;align-items:center;padding:.35rem 0;overflow-wrap:anywhere}
.scope input{width:1.05rem;height:1.05rem;margin:0;flex:none;accent-color:var(--go)}
.scope small{color:var(--soft);margin-left:auto;white-space:nowrap}
.who{display:block;font-weight:600;margin-bottom:.35rem}
input[name=subject]{width:100%;padding:.6rem .7rem;border:1px solid var(--line);border-radius:8px;background:var(--field);color:inherit;font:inherit}
.choice{display:flex;gap:.7rem;margin-top:1.3rem}
button{flex:1;padding:.65rem;border-radius:8px;border:1px solid var(--line);background:transparent;color:inherit;font:inherit;font-weight:600;cursor:pointer}
button.allow{background:#1f6feb;border-color:#1f6feb;color:#fff}
:focus-visible{outline:2px solid var(--go);outline-offset:2px}
footer{margin-top:1.2rem;font-size:.8125rem;color:var(--soft)}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def policy(redirect_uri: str = "") -> str:
    """A form's answer sends the browser on to the client: that must be allowed, too."""
    form = f"'self' {source(redirect_uri)}" if redirect_uri else "'none'"
    return (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action {form}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )


def consent(asked: Asked, number: str, action: str) -> bytes:
    name = escape(asked.client.name) or "A client without a name"
    facts = {"Goes back to": place(asked.redirect_uri), "Resource": asked.resource}
    if asked.client.id.startswith("http"):
        facts = {"Published at": asked.client.id, **facts}
    rows = "".join(f"<dt>{label}</dt><dd>{escape(value)}</dd>" for label, value in facts.items())
    notes = {OFFLINE: "without asking again"}
    scopes = [_scope(scope, notes.get(scope, "")) for scope in asked.scopes]
    scopes += [_scope(scope, "granted before") for scope in asked.before]
    ticks = "".join(scopes) or "<p>Nothing but to know who you are.</p>"
    return _page(
        f"Allow {escape(asked.client.name) or 'this client'}?",
        f"""<h1><bdi>{name}</bdi> wants access</h1>
<p>Anybody may call a client by that name. Look at where it goes back to.</p>
<dl>{rows}</dl>
<form method="post" action="{escape(action)}">
<input type="hidden" name="request" value="{escape(number)}">
<fieldset><legend>What it may do</legend>{ticks}</fieldset>
<label class="who" for="subject">Who are you?</label>
<input id="subject" name="subject" value="dev" maxlength="{MOST_SUBJECT}" required autocomplete="off" spellcheck="false">
<div class="choice"><button class="allow" name="decision" value="allow">Allow</button>
<button name="decision" value="deny" formnovalidate>Deny</button></div>
</form>
<footer>Portico&rsquo;s authorization server for development: it believes whoever you say you are.</footer>""",
    )


def _scope(scope: str, note: str) -> str:
    said = f"<small>{note}</small>" if note else ""
    text = escape(scope)
    return f'<label class="scope"><input type="checkbox" name="scope" value="{text}" checked><code>{text}</code>{said}</label>'


def problem(text: str) -> bytes:
    return _page(
        "This cannot be allowed",
        f"<h1>This cannot be allowed</h1><p>{escape(text)}</p><footer>Nobody has been given anything.</footer>",
    )


def _page(title: str, body: str) -> bytes:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>
""".encode()
