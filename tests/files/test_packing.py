"""Model files of very many columns: what is read is what was written, as JSON with a line for each would have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.files.packing import FROM, packed
from shoal.results.model import NAME, WITH_PACKED, ModelFile, model_bytes, read_model

ODD = ['x"1', "ü\n", "", "a" * 120, "nan"]


def written(count: int = FROM, **terms: Any) -> dict[str, Any]:
    """A model file as programs before this one wrote it."""
    names = [*ODD, *(f"x{i}" for i in range(count - len(ODD)))]
    numbers = [0.1 * i - 3 for i in range(count)]
    numbers[:4] = [-0.0, 5e-324, 1.7976931348623157e308, 1 / 3]
    weights = dict(zip(names, numbers, strict=True))
    design = {"terms": [{"type": "number", "column": name, "fill": 0.0, **terms} for name in names]}
    return {
        "format": NAME, "version": 1, "model": "ridge", "target": "y", "alpha": 1.0, "l1_ratio": None, "intercept": 2.5,
        "coefficients": weights, "coefficients_standardized": {name: -one for name, one in weights.items()},
        "train": {"rows": 5}, "test": {"rows": 0}, "design": design, "config": {}, "data": {"file": "a", "rows": 5},
        "certificate": {"kind": "gradient", "value": 0.0, "relative": 0.0, "rests_on": "data"}, "later": [1],
    }  # fmt: skip


def test_many_columns_come_back_as_they_were_and_older_files_are_read(tmp_path: Path) -> None:
    older, newer = tmp_path / "older.json", tmp_path / "newer.json"
    older.write_bytes(sealed.sealed(written(), NAME, lines=True, ascii=False))
    model = ModelFile.from_dict(read_model(older))
    newer.write_bytes(model_bytes(model))
    found = json.loads(newer.read_bytes())
    assert (found["version"], found["coefficients"], found["later"]) == (WITH_PACKED, {}, [1])
    again = read_model(newer)
    assert ModelFile.from_dict(again) == model
    assert list(again["coefficients"]) == list(written()["coefficients"])  # the order too
    assert {name: one.hex() for name, one in again["coefficients"].items()} == {
        name: one.hex() for name, one in written()["coefficients"].items()
    }
    assert newer.stat().st_size < older.stat().st_size / 3


def test_few_columns_or_unlike_terms_stay_readable() -> None:
    assert packed(written(FROM - 1), WITH_PACKED) is None
    unlike = written()
    unlike["design"]["terms"][7] = {"type": "indicator", "column": "x"}
    assert packed(unlike, WITH_PACKED) is None
    assert packed({**written(), "coefficients_standardized": dict.fromkeys(written()["coefficients"])}, 11) is None


@pytest.mark.parametrize(
    "change",
    [{"names": ["a"]}, {"coefficients": "AAAA"}, {"coefficients": "?"}, {"terms": {}}, {"rows": 10**12}, {"names": 1}],
)
def test_what_was_never_written_so_is_damage_with_a_right_checksum_too(tmp_path: Path, change: dict[str, Any]) -> None:
    whole = packed(written(), WITH_PACKED)
    assert whole is not None
    path = tmp_path / "model.json"
    path.write_bytes(sealed.sealed({**whole, "packed": {**whole["packed"], **change}}, NAME))
    with pytest.raises(DamagedFile, match="cannot be unpacked"):
        read_model(path)
