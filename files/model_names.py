"""What a saved model and its folder may be called, and texts that become such names; which models there are is in
`library.saved_models`."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from shoal.errors import StateError

LONGEST = 80  # bytes of a name; file systems take 255, addresses are read by people
NAME = re.compile(r"\w[\w.-]*")


def safe_name(text: str) -> str:
    """The text with letters, digits, dots, dashes and underscores only; never hidden, never long, never empty."""
    plain = re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", text)).strip(".-")
    whole = plain.encode()
    if len(whole) <= LONGEST and any(c.isalnum() for c in plain):
        return plain.lstrip("_.-") or plain
    short = whole[: LONGEST - 9].decode(errors="ignore").strip("._-")
    return f"{short or 'model'}-{digest(text)}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def is_name(text: str) -> bool:
    """Whether a model may be called so; names come from addresses and from people."""
    return bool(NAME.fullmatch(text)) and len(text.encode()) <= LONGEST


def checked_name(text: str) -> str:
    if not is_name(text):
        raise StateError(
            f"Expected a name of letters, digits, dots, dashes and underscores (at most {LONGEST} bytes), "
            f"got '{text[:100]}'. For example: {safe_name(text)}."
        )
    return text
