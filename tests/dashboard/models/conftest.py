"""A home with three versions of one model, new for every test."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.tables.samples import SAMPLES
from shoal.runs.launch import launch
from shoal.settings.values import config_from
from support.dashboard.models_page import NAME
from support.runs import ended, run_home, short_run


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with three versions of one model; copied for each test."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("library") / "home"
        patch.setenv("SHOAL_HOME", str(home))
        file = str(SAMPLES["penguins"].ensure())
        for knobs in ({"model": "linear", "test_every": 5}, {"model": "ridge", "alpha": 5.0, "test_every": 5}):
            run = launch(config_from({"file": file, "target": "body_mass_g", "register": NAME, **knobs}))
            assert ended(run) == "finished"
        run = launch(short_run(Path(file), target="body_mass_g", epochs=3, test_every=5, register=NAME))
        assert ended(run) == "finished"
    return home


@pytest.fixture(autouse=True)
def home(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copytree(library, tmp_path / "home")
    for path in (tmp_path / "home").rglob("*.json"):  # the data moved with its home
        values = json.loads(path.read_text().replace(str(library), str(tmp_path / "home")))
        if path.parents[1].name != "cache" and isinstance(values, dict):
            values.pop("checksum", None)  # as a version wrote it that had none
            path.write_text(json.dumps(values))
    with run_home(tmp_path / "home", monkeypatch) as found:
        yield found
