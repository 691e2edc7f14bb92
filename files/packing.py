"""Model files of very many columns: each name is written once and numbers as the bytes that they are, since a line for
each takes many seconds to write and to read. What is written is the same; small files stay as people can read them.
"""

from __future__ import annotations

import base64
import binascii
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

FROM = 20_000  # coefficients
PACKED = "packed"  # the field of the document
_WEIGHTS = ("coefficients", "coefficients_standardized")
_NAMES = "names"  # in place of values: the names of the coefficients


def packed(values: Mapping[str, Any], version: int) -> dict[str, Any] | None:
    """The document of a model file without a line for each column, as this version has it; None where it has few, or
    some that are not alike."""
    weights: list[dict[str, Any]] = [values.get(name) or {} for name in _WEIGHTS]
    first, terms = weights[0], (values.get("design") or {}).get("terms") or []
    if len(first) < FROM or any(one.keys() != first.keys() for one in weights):
        return None
    if any({*map(type, one.values())} != {float} for one in weights):
        return None
    names = list(first)
    columns = _by_name(terms, names)
    if columns is None:
        return None
    own = {"version": values["version"], "rows": len(terms), "names": names, "terms": columns}
    own |= {name: _bytes_of([one[key] for key in names]) for name, one in zip(_WEIGHTS, weights, strict=True)}
    short = {**values, **{name: {} for name in _WEIGHTS}, "design": {**values["design"], "terms": []}}
    return {**short, "version": version, PACKED: own}


def unpacked(values: dict[str, Any]) -> dict[str, Any]:
    """The document as it was before; ValueError if what is packed in it cannot have been written so."""
    own = values.get(PACKED)
    if own is None:
        return values
    try:
        names, design = own["names"], values["design"]
        if not isinstance(names, list) or len({*names}) != len(names) or not isinstance(own["rows"], int):
            raise ValueError("names should differ")
        weights = {name: dict(zip(names, _numbers(own[name], len(names)), strict=True)) for name in _WEIGHTS}
        terms = _rows_of(own["terms"], names, own["rows"])
        whole = {**values, **weights, "version": own["version"], "design": {**design, "terms": terms}}
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise ValueError(f"'{PACKED}' cannot be unpacked ({type(error).__name__}: {str(error)[:80]})") from None
    del whole[PACKED]
    return whole


# ------------------------------------------------------------------ terms, column by column


def _by_name(terms: Any, names: list[str]) -> dict[str, Any] | None:
    """Each field of terms that all have the same ones: one value for all, the names, or a list."""
    if not terms or any(type(term) is not dict for term in terms):
        return None
    keys = tuple(terms[0])
    if any(tuple(term) != keys for term in terms):
        return None
    return {key: _shortest([term[key] for term in terms], names) for key in keys}


def _shortest(found: list[Any], names: list[str]) -> dict[str, Any]:
    first = found[0]
    if type(first) in (str, float, int, bool) and all(type(one) is type(first) and one == first for one in found):
        return {"all": first}
    return {"as": _NAMES} if found == names else {"each": found}


def _rows_of(columns: Mapping[str, Mapping[str, Any]], names: list[str], count: int) -> list[dict[str, Any]]:
    values = [_values_of(one, names, count) for one in columns.values()]
    keys = tuple(columns)
    if not keys or not 0 <= count <= sys.maxsize:
        raise ValueError("no terms")
    return [dict(zip(keys, row, strict=True)) for row in zip(*values, strict=True)]


def _values_of(column: Mapping[str, Any], names: list[str], count: int) -> Sequence[Any]:
    if "all" in column:
        if count > 10 * len(names) + 10:
            raise ValueError("more terms than names")
        return [column["all"]] * count
    found = names if "as" in column else column["each"]
    if len(found) != count:
        raise ValueError(f"{len(found)} values for {count} terms")
    return list(found)


# ------------------------------------------------------------------ numbers


def _bytes_of(numbers: list[float]) -> str:
    """Doubles of 8 bytes, the smallest first, in Base64."""
    held = array("d", numbers)
    if sys.byteorder == "big":
        held.byteswap()
    return base64.b64encode(held.tobytes()).decode()


def _numbers(text: str, count: int) -> list[float]:
    held = array("d", base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        held.byteswap()
    if len(held) != count:
        raise ValueError(f"{len(held)} numbers for {count} names")
    return held.tolist()
