"""What proves a row of a run's store: a checksum of its values, beside them; which rows there are is in `sql`.

SQLite tells a file that is not built as it should be, not a number that is another one than was written.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from collections.abc import Sequence
from typing import Any

NOTHING = -sys.float_info.max  # for None among numbers
_CODES = {"int": "q", "float": "d", "float | None": "d", "int | None": "d"}  # text goes in by its own checksum


class Numbers:
    """Seals of rows that are mostly numbers, by the types of their fields; half of what writing such a row costs."""

    def __init__(self, types: Sequence[str]) -> None:
        self._texts = [i for i, kind in enumerate(types) if kind not in _CODES]
        self._optional = [i for i, kind in enumerate(types) if kind.endswith("None")]
        self._pack = struct.Struct("<" + "".join(_CODES.get(kind, "I") for kind in types)).pack

    def seal(self, row: Sequence[Any]) -> int:
        """Of values as a record has them."""
        values = list(row)
        for i in self._texts:
            values[i] = zlib.crc32(values[i].encode())
        for i in self._optional:
            if values[i] is None:
                values[i] = NOTHING
        if math.isnan(sum(values)):  # one is, and there are several kinds of them; or two infinities, which is no harm
            values = [math.nan if value != value else value for value in values]
        return zlib.crc32(self._pack(*values))

    def fits(self, row: Sequence[Any], seal: object) -> bool:
        """Whether a row says what was written; rows of older versions have no seal."""
        if seal is None:
            return True
        try:
            return self.seal(row) == seal
        except (struct.error, TypeError, ValueError, AttributeError, OverflowError):
            return False  # values of other types than were written


def words_seal(*values: str | float | None) -> int:
    """Of a row of texts and a few numbers, each as SQLite gives it back."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))
