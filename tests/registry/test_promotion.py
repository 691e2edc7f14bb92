"""Versions compared on the same rows, promoted by a check and rolled back: library, command line and Python."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats  # type: ignore[import-untyped]

import shoal as python
from shoal.errors import ConfigError, DataError, StateError
from shoal.library import alias_history, aliases
from shoal.library.saved_models import Version, delete_version, find_model
from shoal.registry.pairs import PairedSums
from support.tables import shoal

WORDS = ["no", "maybe", "yes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A table to fit and one to score on; version 1 of each model is fitted well, version 2 by one column only."""
    found = tmp_path_factory.mktemp("registry")
    before = os.environ.get("SHOAL_HOME")
    os.environ["SHOAL_HOME"] = str(found / "home")
    try:
        for name, seed in (("train", 0), ("score", 1)):
            _table(seed).to_csv(found / f"{name}.csv", index=False)
        for target, model in (("y", "linear"), ("won", "logistic"), ("kind", "multinomial")):
            for features in ("a,b,t", "b"):
                done = shoal(
                    "train", found / "train.csv", "--target", target, "--model", model, "--features", features,
                    "--register", target,
                )  # fmt: skip
                assert done.code == 0, done.err
        yield found
    finally:
        os.environ.pop("SHOAL_HOME") if before is None else os.environ.update(SHOAL_HOME=before)


def _table(seed: int) -> pd.DataFrame:
    chance = np.random.default_rng(seed)
    a, b, t = chance.normal(size=400), chance.normal(size=400), chance.choice(["u", "v"], 400)
    y = 3 * a + b + (t == "u") + chance.normal(size=400)
    kind = np.array(WORDS)[np.digitize(y + chance.normal(size=400), [-1.5, 1.5])]
    table = pd.DataFrame({"a": a, "b": b, "t": t, "y": y, "won": np.where(y > chance.normal(size=400), "yes", "no"),
                          "kind": kind})  # fmt: skip
    return table.assign(y=table["y"].where(np.arange(400) % 50 != 0))


def _predicted(label: str, table: Path, out: Path) -> pd.DataFrame:
    python.load(label).predict_to(str(table), str(out))
    return pd.read_csv(out)


@pytest.mark.parametrize("target", ["y", "won", "kind"])
def test_the_difference_is_that_of_the_losses_row_by_row(folder: Path, tmp_path: Path, target: str) -> None:
    """As SciPy has it from predictions that were written to files."""
    table, losses = pd.read_csv(folder / "score.csv"), []
    for number in (1, 2):
        found = _predicted(f"{target}:{number}", folder / "score.csv", tmp_path / "out.csv")
        if target == "y":
            losses.append((table["y"] - found["prediction"]) ** 2)
        elif target == "won":
            losses.append(-np.log(found["probability_yes"].where(table["won"] == "yes", 1 - found["probability_yes"])))
        else:
            own = [row[f"probability_{kind}"] for (_, row), kind in zip(found.iterrows(), table["kind"], strict=True)]
            losses.append(-np.log(pd.Series(own)))
    away = (losses[1] - losses[0]).dropna()
    interval = stats.t.interval(0.95, len(away) - 1, away.mean(), stats.sem(away))
    found = python.compare(f"{target}:1", f"{target}:2", folder / "score.csv")
    assert found.rows == len(away)
    assert found.left_out == 400 - len(away)
    assert found.difference == pytest.approx(away.mean(), rel=1e-9)
    assert (found.low, found.high) == pytest.approx(interval, rel=1e-6)
    scores = [np.sqrt(loss.mean()) if target == "y" else loss.mean() for loss in losses]
    assert (found.first_score, found.second_score) == pytest.approx(scores, rel=1e-9)
    assert found.verdict == "worse"
    assert found.trained_on == ()
    assert python.compare(f"{target}:2", f"{target}:1", folder / "score.csv").verdict == "better"


def test_sums_of_parts_are_those_of_the_whole() -> None:
    values = np.random.default_rng(3).normal(5, 2, 100)
    parts = [PairedSums(len(v), 0.0, 0.0, float(v.mean()), float(((v - v.mean()) ** 2).sum()))
             for v in np.split(values, [10, 55])]  # fmt: skip
    total = PairedSums()
    for part in (*parts, PairedSums()):
        total = total.merge(part)
    assert total.mean == pytest.approx(values.mean(), rel=1e-12)
    assert total.squares == pytest.approx(values.var() * 100, rel=1e-12)


def test_what_cannot_be_compared_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two models of the same column, got 'y' and 'won'"):
        python.compare("y:1", "won:1", folder / "score.csv")
    without = tmp_path / "without.csv"
    pd.read_csv(folder / "score.csv").drop(columns="y").to_csv(without, index=False)
    with pytest.raises(DataError, match="does not have it"):
        python.compare("y:1", "y:2", without)
    (tmp_path / "empty.csv").write_text("a,b,t,y\n1,2,u,\n1,2,u,\n")
    with pytest.raises(DataError, match="that both versions predict, got 0"):
        python.compare("y:1", "y:2", tmp_path / "empty.csv")
    assert "trained on this very file" in shoal("models", "compare", "y:1", "y:2", "--data", folder / "train.csv").out


def test_a_version_is_promoted_only_if_it_is_not_worse(folder: Path) -> None:
    data = ("--data", folder / "score.csv")
    assert "Expected --data" in shoal("models", "promote", "y:1").err
    done = shoal("models", "promote", "y@2", "--to", "champion", *data)
    assert (done.code, "y@champion is version 2 now. Nothing was compared" in done.out) == (0, True)
    again = shoal("models", "promote", "y:2", *data)
    assert (again.code, "is version 2 already" in again.out) == (0, True)
    better = shoal("models", "promote", "y:1", *data)
    assert better.code == 0
    assert "y@champion is version 1 now; it was 2. Checked: its RMSE on score.csv is " in better.out
    worse = shoal("models", "promote", "y:2", *data, "--json")
    answer = json.loads(worse.out)
    assert (worse.code, answer["promoted"], answer["comparison"]["verdict"]) == (3, False, "worse")
    assert aliases.resolve("y@champion").number == 1
    gap = answer["comparison"]["second_score"] - answer["comparison"]["first_score"]
    assert not python.promote("y:2", folder / "score.csv", not_worse_by=0.99 * gap).promoted
    assert python.promote("y:2", folder / "score.csv", not_worse_by=1.01 * gap).promoted
    assert "already" in python.promote("y:2", folder / "score.csv").why
    with pytest.raises(ConfigError, match="from 0 on"):
        python.promote("y:1", folder / "score.csv", not_worse_by=float("nan"))
    moves = python.history("y")
    assert [(move.version, move.before) for move in moves] == [(2, 1), (1, 2), (2, None)]
    assert {move.who for move in moves} == {alias_history.user()}
    assert moves[1].why.startswith("Checked: its RMSE on score.csv")
    assert "Checked: its RMSE" in shoal("models", "history", "y").out


def test_each_rollback_goes_one_step_further_back(folder: Path) -> None:
    model = find_model("won")
    assert model is not None
    with pytest.raises(StateError, match="meant before, but there is none"):
        aliases.roll_back(model)
    for number in (1, 2, 1):
        aliases.give(Version("won", number), "champion", "anna", "a try")
    aliases.give(Version("won", 1), "champion")  # which it means already: no move
    assert len(alias_history.moves("won")) == 3
    assert shoal("models", "rollback", "won").out == "won@champion is version 2 again\n"
    assert python.rollback("won") == "won:1"
    with pytest.raises(StateError, match="none any more"):
        aliases.roll_back(model)
    aliases.give(Version("won", 2), "champion")
    assert python.rollback("won") == "won:1"
    assert [move.back for move in python.history("won")] == [True, False, True, True, False, False, False]


def test_versions_that_are_gone_are_passed_over_and_a_damaged_history_begins_anew(folder: Path) -> None:
    for number in (1, 2):
        aliases.give(Version("kind", number), "champion")
    delete_version(Version("kind", 1))
    model = find_model("kind")
    assert model is not None
    with pytest.raises(StateError, match="none any more"):
        aliases.roll_back(model)
    path = folder / "home" / "models" / "kind" / alias_history.FILE
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StateError, match="cannot be read"):
        alias_history.moves("kind")
    assert "begins a new history" in shoal("models", "history", "kind").err
    aliases.take_away(model, "champion")
    assert [move.version for move in alias_history.moves("kind")] == [None]
    assert (path.parent / f"{path.name}.damaged").is_file()
