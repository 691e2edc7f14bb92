"""Calls csv_kernel.c; what fields mean is decided in data.kinds, how C is built in native."""

from __future__ import annotations

import ctypes
import functools
from enum import IntEnum, IntFlag

import numpy as np
import numpy.typing as npt

from shoal.kernels.build import build

PADDING = 64  # bytes that must be writable after the last valid one


class FieldKind(IntEnum):
    """What becomes of a column's fields."""

    SKIP = 0
    NUMBER = 1
    DATE = 2
    LEVEL = 3
    MARKED = 4  # a number with marks, read by the column's notation
    TIME = 5  # of day, as hours


class MarkRole(IntEnum):
    """What a mark in a number is."""

    DROPPED = 0
    MINUS = 1
    GROUP = 2


class Status(IntEnum):
    DONE = 0
    NEED_MORE = 1
    TOO_MANY_ODDITIES = 2
    NO_MEMORY = 3
    NO_ROOM = 4


class Written(IntEnum):
    """How a field stood in the file."""

    PLAIN = 0
    QUOTED = 1
    ESCAPED = 2


class RowFault(IntEnum):
    """What is wrong with a bad row."""

    WRONG_COUNT = 0
    NEVER_CLOSED = 1


class DateStyle(IntFlag):
    """How a date is written: one of the first three, and what is added to it."""

    YEAR_FIRST = 0
    DAY_FIRST = 1
    MONTH_FIRST = 2
    SHORT_YEARS = 4  # years of two digits as well
    NAMED = 8  # the month is a word
    COMPACT = 16  # eight digits: 20211231
    BUDDHIST = 64  # years are counted as in Thailand: 2564 is 2021
    OTHERS_TOO = 32  # and dates among them that tell themselves: with the year first, or a name for the month


ODDITY = np.dtype([(n, np.int64) for n in ("row", "column", "line", "offset", "length", "written")])
BAD_ROW = np.dtype([(n, np.int64) for n in ("row", "line", "fields", "reason")])
LEVEL = np.dtype([("hash", np.uint64), ("offset", np.int64), ("length", np.int32), ("written", np.int32)])


class Marks(ctypes.Structure):
    """The bytes with a meaning; 0 where there is none."""

    _fields_ = tuple(
        (n, ctypes.c_uint8)
        for n in ("delimiter", "quote", "escape", "decimal", "thousands", "comment", "newline", "numbers_missing")
    )


class ColumnNotation(ctypes.Structure):
    """How the numbers of a marked column are written."""

    _fields_ = (
        ("marks", ctypes.c_char_p),
        ("ends", ctypes.c_void_p),
        ("roles", ctypes.c_char_p),
        ("count", ctypes.c_int64),
        ("decimal", ctypes.c_uint8),
        ("pairs", ctypes.c_uint8),
    )


class Months(ctypes.Structure):
    """Words of dates: names of months with their number, and others with 13; in small letters."""

    _fields_ = (
        ("names", ctypes.c_char_p),
        ("ends", ctypes.c_void_p),
        ("numbers", ctypes.c_char_p),
        ("count", ctypes.c_int64),
    )


class Dictionary(ctypes.Structure):
    _fields_ = (
        ("levels", ctypes.c_void_p),
        ("table", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("room", ctypes.c_int64),
        ("mask", ctypes.c_int64),
        ("refused", ctypes.c_int64),
        ("limit", ctypes.c_int64),
    )


class ParserState(ctypes.Structure):
    """The arguments and the state of one reading; field by field the struct of csv_types.h."""

    _fields_ = (
        ("buffer", ctypes.c_void_p),
        ("length", ctypes.c_int64),
        ("at_end", ctypes.c_int64),
        ("position", ctypes.c_int64),
        ("stop", ctypes.c_int64),
        ("marks", Marks),
        ("columns", ctypes.c_int64),
        ("kind", ctypes.c_void_p),
        ("slot", ctypes.c_void_p),
        ("date_style", ctypes.c_void_p),
        ("months", Months),
        ("notations", ctypes.POINTER(ColumnNotation)),
        ("missing_tokens", ctypes.c_char_p),
        ("missing_ends", ctypes.c_void_p),
        ("missing_count", ctypes.c_int64),
        ("numbers", ctypes.c_void_p),
        ("number_stride", ctypes.c_int64),
        ("codes", ctypes.c_void_p),
        ("code_stride", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("row_room", ctypes.c_int64),
        ("lines", ctypes.c_int64),
        ("oddities", ctypes.c_void_p),
        ("oddity_count", ctypes.c_int64),
        ("oddity_room", ctypes.c_int64),
        ("bad_rows", ctypes.c_void_p),
        ("bad_count", ctypes.c_int64),
        ("bad_room", ctypes.c_int64),
        ("leading_zeros", ctypes.c_void_p),
        ("dictionaries", ctypes.POINTER(Dictionary)),
        ("level_columns", ctypes.c_int64),
        ("powers_of_five", ctypes.c_void_p),
        ("run_from", ctypes.c_int64),
        ("run_upto", ctypes.c_int64),
    )


class Joining(ctypes.Structure):
    """Lines that are written with the cells of rows before them; field by field the struct of csv_cells.h."""

    _fields_ = (
        ("places", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("cells", ctypes.c_void_p),
        ("lines", ctypes.c_char_p),
        ("length", ctypes.c_int64),
        ("at", ctypes.c_int64),
        ("tail", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("by_hand", ctypes.c_int64),
        ("all", ctypes.c_int64),
        ("out", ctypes.c_void_p),
        ("room", ctypes.c_int64),
        ("used", ctypes.c_int64),
    )


def _power_of_five(q: int) -> int:
    """The leading 128 bits of 5**q, as Lemire's method wants them: cut off for q >= 0, rounded up below."""
    if q >= 0:
        power = int(5**q)
        bits = power.bit_length()
        return power << (128 - bits) if bits <= 128 else power >> (bits - 128)
    divisor = int(5**-q)
    bits = (divisor - 1).bit_length()
    if q >= -27:
        return (1 << (bits + 127)) // divisor + 1
    quotient = (1 << (2 * bits + 128)) // divisor + 1
    return quotient >> (quotient.bit_length() - 128)


@functools.cache
def powers_of_five() -> npt.NDArray[np.uint64]:
    """(high, low) words of 5**q for q = -342 .. 308."""
    powers = (_power_of_five(q) for q in range(-342, 309))
    return np.array([(p >> 64, p & (2**64 - 1)) for p in powers], dtype=np.uint64)


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("csv_kernel")))
    kernel.parse.argtypes = [ctypes.POINTER(ParserState)]
    kernel.split.argtypes = [ctypes.POINTER(ParserState), ctypes.c_void_p, ctypes.c_int64]
    kernel.split.restype = ctypes.c_int64
    kernel.join.argtypes = [ctypes.POINTER(ParserState), ctypes.POINTER(Joining)]
    kernel.guess_row_start.argtypes = [ctypes.POINTER(ParserState), ctypes.c_int64]
    kernel.guess_row_start.restype = ctypes.c_int64
    kernel.free_dictionaries.argtypes = [ctypes.POINTER(ParserState)]
    kernel.free_dictionaries.restype = None
    kernel.content_hash.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    kernel.content_hash.restype = ctypes.c_uint64
    kernel.column_statistics.argtypes = [ctypes.c_void_p, *2 * (ctypes.c_int64,), *3 * (ctypes.c_void_p,)]
    kernel.column_statistics.restype = ctypes.c_double
    kernel.time_of.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)]
    kernel.date_of.argtypes = [
        ctypes.POINTER(Months), ctypes.c_char_p, ctypes.c_int64, ctypes.c_int, ctypes.POINTER(ctypes.c_double)
    ]  # fmt: skip
    return kernel
