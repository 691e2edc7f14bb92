"""Bodies of CSV: words that mean no value, as the model was trained to know them."""

from __future__ import annotations

from pathlib import Path

from shoal.fitting.model_file import load_model
from shoal.serving.bodies import _csv_rows
from support.tables import shoal, written


def test_words_for_none_are_known_in_any_spelling_where_texts_are_read_in_one(tmp_path: Path) -> None:
    rows = "".join(f"{('Ja', 'nein ', 'K.A.')[i % 3]},{('x', 'ANDERE')[i % 2]},{i % 7},{i}\n" for i in range(60))
    words = ["--one-spelling", "car", "--also-missing", "car=k.A.", "--also-missing", "kind=ANDERE"]
    table = written(tmp_path, f"car,kind,size,y\n{rows}")
    assert shoal("train", table, "--target", "y", *words, "--out", tmp_path / "m.json").code == 0
    model = load_model(tmp_path / "m.json")
    assert model.one_spelling == ("car",)
    read = _csv_rows(b"car,kind,size\nk.A.,ANDERE,1\nK.a. ,andere,NA\nJA,x,2\n", model)
    assert [[row[name] for name in ("car", "kind", "size")] for row in read] == [
        [None, None, "1"], [None, "andere", None], ["JA", "x", "2"],
    ]  # fmt: skip
