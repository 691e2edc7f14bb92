"""Model files: each flipped bit is refused or harmless, older files and those edited on purpose are read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import DamagedFile, StateError
from shoal.fitting.model_file import SavedModel, load_model, save_model
from shoal.settings.values import config_from
from shoal.tasks.train import train

TABLE = "gr\u00f6\u00dfe,b,y\n" + "".join(f"{i % 7},{'uvw'[i % 3]},{(i * i) % 11 + i % 7}\n" for i in range(60))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    (tmp_path / "t.csv").write_text(TABLE)
    trained = train(config_from({"file": str(tmp_path / "t.csv"), "target": "y", "engine": "inline"}))
    save_model(tmp_path / "model.json", trained.model)
    return tmp_path / "model.json"


def said(found: SavedModel) -> tuple[Any, ...]:
    return found.encoding.as_list(), found.coef.tolist(), found.file.as_dict()


def test_it_stays_readable_and_its_last_field_is_the_checksum(model: Path) -> None:
    text = model.read_text("utf-8")
    assert "gr\u00f6\u00dfe" in text
    assert text.splitlines()[-2].startswith(' "checksum": "')
    assert "checksum" not in load_model(model).file.as_dict()
    reformatted = model.with_name("other.json")  # by another program: what it says is the same
    reformatted.write_text(json.dumps(json.loads(text), indent=4))
    assert said(load_model(reformatted)) == said(load_model(model))


def test_no_flipped_bit_and_no_swapped_value_makes_another_model(model: Path) -> None:
    whole, before, chance = model.read_bytes(), said(load_model(model)), random.Random(4)
    refused = 0
    for _ in range(400):
        content = bytearray(whole)
        place, other = chance.randrange(len(content)), chance.randrange(len(content))
        if chance.random() < 0.5:
            content[place] ^= 1 << chance.randrange(8)
        else:
            content[place], content[other] = content[other], content[place]
        model.write_bytes(content)
        try:
            assert said(load_model(model)) == before
        except StateError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize("length", [0, 1, 100, -1, -3, -20])
def test_a_file_that_was_cut_is_refused(length: int, model: Path) -> None:
    whole, before = model.read_bytes(), said(load_model(model))
    model.write_bytes(whole[:length])
    if whole[:length].strip() == whole.strip():
        assert said(load_model(model)) == before
        return
    with pytest.raises(DamagedFile, match=r"expected .*, got .*Use another copy of it, or train again"):
        load_model(model)


def test_files_of_older_versions_and_of_people_who_edit_them(model: Path) -> None:
    contents = json.loads(model.read_text("utf-8"))
    contents["intercept"] = 100.0
    model.write_text(json.dumps(contents))
    with pytest.raises(DamagedFile, match=r'expected checksum .*, got .*puts "none" in place of its checksum'):
        load_model(model)
    model.write_text(json.dumps({**contents, "checksum": "none"}))
    assert load_model(model).intercept == 100.0
    contents.pop("checksum")
    model.write_text(json.dumps(contents))
    assert load_model(model).intercept == 100.0
    model.write_text(json.dumps({**contents, "chegksum": "0123abcd"}))  # the name of the field is damaged
    with pytest.raises(DamagedFile):
        load_model(model)


def test_a_later_version_is_named_even_if_its_checksum_is_made_otherwise(model: Path) -> None:
    model.write_text(json.dumps({**json.loads(model.read_text("utf-8")), "version": 99}))
    with pytest.raises(StateError, match="has version 99, this program reads versions 1 to 11"):
        load_model(model)
