"""Digits of other scripts: numbers and dates in files to train with and to predict, whichever digits these have."""

from __future__ import annotations

import codecs
from pathlib import Path

import pandas as pd
import pytest

from shoal.data.formats.digits import CODEC, written_so
from support.tables import shoal, written

EASTERN = str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")
ROWS = [(f"شارع {i % 3}", i, 3.5 * i + i % 3) for i in range(60)]


def text(table: dict[int, int]) -> str:
    return "الشارع;عدد;y\n" + "".join(f"{a};{b};{c}\n".translate(table) for a, b, c in ROWS)


def test_models_and_new_files_have_either_digits(tmp_path: Path) -> None:
    plain, eastern = written(tmp_path, text({}), "plain.csv"), written(tmp_path, text(EASTERN), "eastern.csv")
    predicted = []
    for trained in (plain, eastern):
        model = tmp_path / f"{trained.stem}.json"
        assert shoal("train", trained, "--target", "y", "--out", model).code == 0
        for new in (plain, eastern):
            out = tmp_path / f"{trained.stem}-{new.stem}.csv"
            done = shoal("predict", model, new, "--keep", "عدد", "--like-file", "--out", out)
            assert done.code == 0, done.err
            predicted.append(pd.read_csv(out, sep=";")["prediction"].tolist())
    assert predicted[0] == pytest.approx([c for _, _, c in ROWS], abs=1e-9)
    assert all(other == predicted[0] for other in predicted)


def test_the_codec_takes_letters_that_are_cut_by_pieces() -> None:
    raw = text(EASTERN).encode()
    decoder = codecs.getincrementaldecoder(CODEC)("replace")
    pieces = "".join(decoder.decode(raw[i : i + 1], i == len(raw) - 1) for i in range(len(raw)))
    assert pieces == text({})
    assert "\u066b".encode().decode(CODEC) == "."


@pytest.mark.parametrize(
    ("said", "so"),
    [("a;b\n" + "١٢;x\n" * 30, True), ("a;b\n" + "12;شارع ٣\n" * 30, False), ("a;b\n" + "١2;x\n" * 30, False),
     ("a;b\n" + "12;x\n" * 30 + "١٢;x\n", False)],
)  # fmt: skip
def test_texts_with_a_digit_are_no_numbers(said: str, so: bool) -> None:
    assert written_so(said) is so
