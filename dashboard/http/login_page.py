"""The pages that are shown before somebody is in: the login form and short notices; nothing in them is loaded."""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path
from urllib.parse import quote

STYLE = """
:root { color-scheme: light dark; --back: #f4f7f7; --card: #ffffff; --text: #1c2b2d; --quiet: #54686b;
  --line: #b9c6c6; --accent: #09756b; --on-accent: #ffffff; --error: #b3263a; --error-back: #fbe9ec; }
@media (prefers-color-scheme: dark) { :root { --back: #0e1416; --card: #172023; --text: #e7eeee; --quiet: #a3b3b5;
  --line: #465558; --accent: #2aa79a; --on-accent: #06201d; --error: #ff9aa7; --error-back: #3a1a20; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 "Source Sans", "Source Sans 3", system-ui, -apple-system, "Segoe UI", sans-serif; }
main { width: 100%; max-width: 24rem; padding: 2rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; }
svg { display: block; height: 2.25rem; width: auto; margin-bottom: 1.25rem; }
h1 { margin: 0 0 0.25rem; font-size: 1.4rem; line-height: 1.3; }
p { margin: 0 0 1.25rem; color: var(--quiet); overflow-wrap: anywhere; }
label { display: block; font-weight: 600; margin-bottom: 0.35rem; }
input { width: 100%; font: inherit; padding: 0.6rem 0.75rem; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; }
label + input + label { margin-top: 1rem; }
button, .button { display: block; width: 100%; margin-top: 1rem; font: inherit; font-weight: 600; padding: 0.65rem;
  text-align: center; text-decoration: none; cursor: pointer; border: 0;
  color: var(--on-accent); background: var(--accent); border-radius: 8px; }
.or { margin: 1rem 0 0.5rem; text-align: center; }
button:hover, .button:hover { filter: brightness(1.08); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.problem { margin: 0 0 1rem; padding: 0.6rem 0.9rem; color: var(--error); background: var(--error-back);
  border-left: 4px solid var(--error); border-radius: 6px; }
"""
_HERE = Path(__file__).parents[1]  # the folder of the pictures
_ICON = base64.b64encode((_HERE / "logo.svg").read_bytes()).decode()
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

# Stricter than for the app: no script at all.
CONTENT_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors {ancestors}"
)


_NAME = """<label for="name">Name</label>
<input id="name" name="name" type="text" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="64"
 required autofocus{}>
"""


def login_form(destination: str, problem: str = "", named: bool = False, provider: str = "") -> str:
    """The form; `destination` is where to go afterwards, `problem` why an earlier try failed.

    `named`: people log in with their names too. `provider` is what the way by an OpenID provider is called, if any.
    """
    said = f'<div class="problem" role="alert" id="problem">{html.escape(problem)}</div>' if problem else ""
    described = ' aria-describedby="problem" aria-invalid="true"' if problem else ""
    first, name = ("", _NAME.format(described)) if named else (" autofocus", "")
    about = "This dashboard is for people with an account." if named else "This dashboard is protected by a password."
    return _page(
        "Log in to Shoal",
        f"""<h1>Log in</h1>
<p>{about}</p>
{said}{_by_provider(provider, destination) if named and provider else ""}<form method="post" action="login">
<input type="hidden" name="next" value="{html.escape(destination)}">
{name}<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024" required
{first}{described}>
<button type="submit">Log in</button>
</form>""",
    )


def _by_provider(words: str, destination: str) -> str:
    """A link: a form that leads to another server is refused by browsers, and rightly so."""
    address = html.escape(f"login/provider?next={quote(destination, safe='')}")
    return f'<a class="button" href="{address}">{html.escape(words)}</a>\n<p class="or">or with a password</p>\n'


def notice(title: str, text: str, link: tuple[str, str] | None = None) -> str:
    """`link` is an address, and its words."""
    way = f'\n<a class="button" href="{html.escape(link[0])}">{html.escape(link[1])}</a>' if link else ""
    return _page(title, f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(text)}</p>{way}")


def _page(title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:image/svg+xml;base64,{_ICON}">
<style>{STYLE}</style>
</head>
<body><main>
{(_HERE / "logo.svg").read_text("utf-8")}
{body}
</main></body>
</html>
"""
