"""What browsers are told about every answer: what a page may load, who may show it in a frame. Access is in `gate`."""

from __future__ import annotations

import base64
import hashlib
import re
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

from shoal.dashboard.http import access, own_page
from shoal.dashboard.http.visit import Visit

OURS_ONLY = {"'self'": "SAMEORIGIN", "'none'": "DENY"}  # what the older header says for these


class SecurityHeaders:
    """`ancestors` are those who may show the dashboard in a frame, in the words of a content policy."""

    def __init__(self, ancestors: str) -> None:
        self.ancestors = ancestors
        self.fixed = {
            "Content-Security-Policy": content_policy(ancestors),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), display-capture=()",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if ancestors in OURS_ONLY:
            self.fixed["X-Frame-Options"] = OURS_ONLY[ancestors]

    def added(self, visit: Visit, send: Send) -> Send:
        """Send with these headers on every answer; one that an answer has already stays."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.fixed.items():
                    headers.setdefault(name, value)
                if _is_trustworthy(visit):
                    headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
            await send(message)

        return sending


def _is_trustworthy(visit: Visit) -> bool:
    """Elsewhere browsers ignore an opener policy, with an error on the console."""
    return visit.is_secure or access.is_loopback(urlsplit(f"//{visit.host}").netloc.rpartition(":")[0] or visit.host)


def content_policy(ancestors: str) -> str:
    """What pages may load: our own files only. Found by opening every page and reading the console."""
    scripts = " ".join(["'self'", *_inline_scripts(), "blob:"])
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src {scripts}",
            "style-src 'self' 'unsafe-inline'",  # Streamlit makes its styles while it runs
            "img-src 'self' data: blob:",  # text from files can never load a remote image
            "font-src 'self' data:",
            "media-src 'self' data: blob:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "frame-src 'self'",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            f"frame-ancestors {ancestors}",
        )
    )


def _inline_scripts() -> list[str]:
    """The scripts in the page, Streamlit's and ours, by their hashes."""
    found = re.findall(r"<script>(.*?)</script>", own_page.OURS, re.DOTALL)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in found]
