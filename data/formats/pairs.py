"""Rows written as `label index:value index:value ...` (svmlight, libsvm), which are no table of cells."""

from __future__ import annotations

from shoal.errors import DataError
from shoal.lazy.patterns import pattern

LOOKED_AT = 200  # lines
NUMBER = rb"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"  # nothing is given back, or long rows take for ever
ROW = pattern(rb"%s(?:[ \t]++qid:\d++)?((?:[ \t]++\d++:%s)*+)[ \t]*+(?:#.*)?" % (NUMBER, NUMBER))
PAIR = pattern(rb"(\d+):(\S+)")
TIME = pattern(rb"\d{1,2}:[0-5]\d")


def has_pairs(sample: bytes) -> bool:
    """Whether these first bytes, whole lines, are such rows.

    Numbers beside times of day, `5 12:30 13:45`, look alike and are a table.
    """
    lines = [line.strip() for line in sample.split(b"\n", LOOKED_AT)[:LOOKED_AT]]
    rows = [ROW.fullmatch(line) for line in lines if line and not line.startswith(b"#")]
    found = [PAIR.findall(row[1]) for row in rows if row]
    if len(found) < len(rows) or max(map(len, found), default=0) < 2:
        return False
    pairs = [pair for row in found for pair in row]
    return not all(TIME.fullmatch(b":".join(pair)) for pair in pairs)


def refuse_pairs(sample: bytes, name: str) -> None:
    """DataError with the way that works, if these are such rows: they would be read as one column of text."""
    if has_pairs(sample):
        raise DataError(
            f"'{name}' has sparse rows (svmlight: label index:value ...). Linear, ridge, lasso, elastic-net and "
            "logistic models are fitted to them exactly (shoal train FILE --model lasso, shoal.fit), tuned (shoal "
            "tune; logistic ones are not) and predict "
            "for them (shoal predict); what was asked for here needs a table of cells. If it is one, say what is "
            "between them (delimiter)."
        )
