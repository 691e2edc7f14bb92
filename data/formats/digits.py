"""UTF-8 with digits of other scripts read as 0 to 9: a codec of its own, so that whatever reads a text has them."""

from __future__ import annotations

import codecs
import functools
import re
import sys
import unicodedata
from typing import Any

CODEC = "utf-8-digits"
# Where such digits begin: Arabic, Persian, Indian and Thai scripts, and the wide ones of East Asia.
_LEADING = re.compile(rb"\xd9[\xa0-\xa9]|\xdb[\xb0-\xb9]|\xe0[\xa4-\xbd][\x90-\x99\xa6-\xaf]|\xef\xbc[\x90-\x99]")
_MARKS = {"\u066b": ".", "\u066c": "'", "\u066a": "%"}  # no comma, which may stand between fields
_BETWEEN = re.compile(r"[;,\t|\r\n\"]")
_NUMBER = re.compile(r"[^\w]{0,3}\d[\d.,/:' \u066b\u066c\u066a%)-]*[^\W\d_]{0,6}")
NOTE = "Digits of another script are read as 0 to 9, in texts too."


def written_so(text: str) -> bool:
    """Whether numbers and dates of a text have other digits than 0 to 9: those of a column at least, and no plain ones
    among them."""
    foreign = [
        cell for cell in map(str.strip, _BETWEEN.split(text))
        if any(c.isdecimal() and not c.isascii() for c in cell) and _NUMBER.fullmatch(cell)
    ]  # fmt: skip
    lines = max(1, text.count("\n"))
    return 2 * len(foreign) >= lines and not any("0" <= c <= "9" for cell in foreign for c in cell)


def may_have(sample: bytes) -> bool:
    return not sample.isascii() and _LEADING.search(sample) is not None


@functools.cache
def _plain() -> dict[int, str]:
    digits = (chr(code) for code in range(0x80, sys.maxunicode + 1))
    return {ord(c): str(unicodedata.decimal(c)) for c in digits if c.isdecimal()} | str.maketrans(_MARKS)


class _Decoder(codecs.BufferedIncrementalDecoder):
    def _buffer_decode(self, data: Any, errors: str, final: bool) -> tuple[str, int]:
        text, used = codecs.utf_8_decode(data, errors, final)
        return text.translate(_plain()), used


class _Encoder(codecs.IncrementalEncoder):
    def encode(self, text: str, final: bool = False) -> bytes:
        return text.encode("utf-8", self.errors)


def _decode(data: Any, errors: str = "strict") -> tuple[str, int]:
    text, used = codecs.utf_8_decode(data, errors, True)
    return text.translate(_plain()), used


def _found(name: str) -> codecs.CodecInfo | None:
    if name != CODEC.replace("-", "_"):
        return None
    return codecs.CodecInfo(
        codecs.utf_8_encode, _decode, incrementalencoder=_Encoder, incrementaldecoder=_Decoder, name=CODEC
    )


codecs.register(_found)
