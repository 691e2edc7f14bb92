"""Texts that are one value in several spellings, as `Ja` and `JA ` are: which they are, and how they become one."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# Letters whose capitals are those of others: KALICI is Kalıcı or Kalici, and STRASSE is Straße or Strasse.
SHARED_CAPITALS = str.maketrans({"İ": "i", "ı": "i", "ß": "ss", "ẞ": "ss"})


def in_one_spelling(text: str) -> str:
    """Small letters, one blank between words and none around them, accents as one character. Blanks alone stay so."""
    composed = unicodedata.normalize("NFC", text).translate(SHARED_CAPITALS)
    return " ".join(composed.split()).lower() or text


def spelled_alike(texts: Iterable[str]) -> list[list[str]]:
    """The texts that are one in one spelling, several to each list."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(in_one_spelling(text), []).append(text)
    return [group for group in alike.values() if len(group) > 1]
