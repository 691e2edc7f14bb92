"""The address that a dashboard without a password prints: whoever started it may come in, other users of the machine
may not. What a session is worth is decided in `access`; who gets one, in `gate`."""

from __future__ import annotations

import hmac
import html
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from shoal.home import opening_page, usual_umask
from shoal.utils import write_atomically

NO_TOKEN, NO_BROWSER = "SHOAL_NO_TOKEN", "SHOAL_NO_BROWSER"


class _UnusedToken:
    """The token of this server that has not been used yet; empty where none is needed."""

    token = ""
    tell: Callable[[str], None] | None = None
    page: Path | None = None


def begin() -> None:
    """Ask for a token from now on, unless whoever started the server wants none."""
    _UnusedToken.token = "" if os.environ.get(NO_TOKEN) else secrets.token_urlsafe(24)


def is_needed() -> bool:
    """Whether only those may come in who have used an address; a password replaces that."""
    return bool(_UnusedToken.token)


def spend(given: str) -> bool:
    """Whether this is the token. It is good for one browser; there is another one at once, and it is told."""
    right = is_needed() and hmac.compare_digest(given.encode("utf-8", "replace"), _UnusedToken.token.encode())
    if right:
        _UnusedToken.token = secrets.token_urlsafe(24)
        if _UnusedToken.tell is not None:
            _UnusedToken.tell(_UnusedToken.token)
    return right


# ------------------------------------------------------------------ told to whoever started it


def announce(address: str, port: int, is_locked: bool) -> None:
    """Print where the dashboard is and, as long as no password is asked for, how one browser gets in; open it."""
    if not is_needed():
        print(f"\n  Shoal's dashboard: {address}\n", flush=True)
        return

    def tell(token: str) -> None:
        _write_page(f"{address}?token={token}")
        print(f"  A browser is in. For another one: {address}?token={token}", flush=True)

    _UnusedToken.tell, _UnusedToken.page = tell, opening_page(port)
    first = f"{address}?token={_UnusedToken.token}"
    _write_page(first)
    if is_locked:
        print(f"\n  Shoal's dashboard: {address}\n", flush=True)
        return
    print(f"\n  Shoal's dashboard is for you alone. Open it once by this address:\n\n      {first}\n", flush=True)
    _open_browser(_UnusedToken.page)


def _write_page(address: str) -> None:
    """A page that leads there, for its owner only: the arguments of a browser's process can be read by everybody."""
    target = html.escape(address)
    text = f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">Open Shoal</a>\n'
    if _UnusedToken.page is not None:
        write_atomically(_UnusedToken.page, text.encode())


def withdraw() -> None:
    """The server ends, and with it the address."""
    if _UnusedToken.page is not None:
        _UnusedToken.page.unlink(missing_ok=True)


def _open_browser(page: Path) -> None:
    """Where a person sits in front of a screen; elsewhere the printed address is all there can be."""
    screen = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not screen or not sys.stdout.isatty() or os.environ.get(NO_BROWSER):
        return
    subprocess.Popen(
        [sys.executable, "-m", "webbrowser", page.as_uri()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True, umask=usual_umask(),
    )  # fmt: skip
