"""Every kind of model, fitted once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import shoal
from support.exports import CASES, spoilt


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path_factory.getbasetemp() / "home"))


# ------------------------------------------------------------------ models


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a case: `data.csv` with what is to be predicted, `model.json`; made once."""
    made: dict[str, Path] = {}

    def place(case: str) -> Path:
        if case not in made:
            folder = made[case] = tmp_path_factory.mktemp(case.replace(" ", "_"))
            frame, target, knobs = CASES[case][0](), *CASES[case][1:]
            frame.to_csv(folder / "train.csv", index=False)
            shoal.fit(folder / "train.csv", target, **knobs).save(folder / "model.json")
            spoilt(frame.drop(columns=target)).to_csv(folder / "data.csv", index=False)
        return made[case]

    return place
