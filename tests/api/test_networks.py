"""Networks on files and tables from Python and the command line: the same answers everywhere, and after a reload."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import permutation_importance

import shoal
from shoal.cli.app import main
from shoal.errors import ConfigError, DamagedFile, StateError
from shoal.settings.values import config_from
from shoal.tasks.diagnose import diagnose
from support.gradient.network_tables import TEST_EVERY, curved, oracle, outputs

KNOBS: dict[str, Any] = {
    "model": "mlp", "hidden": "8", "epochs": 4, "engine": "inline", "test_every": TEST_EVERY
}  # fmt: skip


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def layers_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["layers"]
    return found


def test_numbers_are_predicted_as_plain_pytorch_does_by_files_frames_and_after_a_reload(tmp_path: Path) -> None:
    path, saved = curved(tmp_path / "table.csv", 300), tmp_path / "model.json"
    model = shoal.fit(path, target="y", **KNOBS)
    model.save(saved)
    wanted = outputs(layers_of(saved), oracle(path).X)
    again, frame = shoal.load(saved), pd.read_csv(path)
    for found in (model.predict(path), model.predict(frame), again.predict(path), again.predict(frame)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert model.predict(path).tobytes() == again.predict(path).tobytes()
    middle, low, high = again.predict(frame, interval=0.9)
    inside = (low <= frame["y"]) & (frame["y"] <= high)
    assert 0.8 < inside[::TEST_EVERY].mean() <= 1
    assert (middle - low).max() == pytest.approx((high - middle).max())
    assert model.network is not None
    assert model.network.beside is not None
    assert "Beside it, on the same 75 test rows, the exact linear model" in repr(model)
    assert str(model.summary()).startswith("A network with hidden layers of 8 units")
    assert "parameters" in model._repr_html_()


def test_a_frame_is_fitted_too_and_yes_and_no_have_probabilities(tmp_path: Path) -> None:
    path, saved = curved(tmp_path / "table.csv", 300, yes_no=True), tmp_path / "model.json"
    frame = pd.read_csv(path)
    model = shoal.fit(frame, target="y", **KNOBS)
    model.save(saved)
    p = 1 / (1 + np.exp(-outputs(layers_of(saved), oracle(path).X)))
    np.testing.assert_allclose(model.predict_proba(frame)[:, 1], p, rtol=1e-10)
    assert model.classes == ("no", "yes")
    np.testing.assert_array_equal(model.predict(frame, threshold=0.3), np.where(p >= 0.3, "yes", "no"))
    assert model.score(frame) == pytest.approx(((p >= 0.5) == (frame["y"] == "yes")).mean())
    assert shoal.fit(path, target="y", **KNOBS, positive="no").classes == ("yes", "no")


def test_the_command_line_trains_in_a_run_and_predicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, saved, out = curved(tmp_path / "table.csv", 300), tmp_path / "model.json", tmp_path / "predictions.csv"
    config = tmp_path / "run.yaml"
    config.write_text("target: y\nmodel: mlp\nhidden: 8,4\nepochs: 4\nworkers: 2\ntest_every: 4\n")
    assert main(["train", str(path), "--config", str(config), "--out", str(saved)]) == 0
    said = capsys.readouterr().out
    assert "A network with hidden layers of 8 and 4 units, 81 parameters in all" in said
    assert "the exact linear model: mean squared error" in said
    assert "95 % interval" in said
    assert "gradient steps, mode sync: 4 epochs" in said
    assert main(["predict", str(saved), str(path), "--out", str(out)]) == 0
    with out.open() as file:
        found = [float(row["prediction"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(found, outputs(layers_of(saved), oracle(path).X), rtol=1e-12)
    assert main(["show", "last"]) == 0
    assert "mlp" in capsys.readouterr().out


def test_what_a_network_has_not_is_said_and_files_are_proven(tmp_path: Path) -> None:
    path, saved = curved(tmp_path / "table.csv", 120), tmp_path / "model.json"
    model = shoal.fit(path, target="y", **{**KNOBS, "epochs": 1})
    model.save(saved)
    for ask in (lambda: model.export("sql", tmp_path / "model.sql"),):
        with pytest.raises(StateError, match=r"are for models with coefficients; this is a neural network \(mlp\)"):
            ask()
    with pytest.raises(StateError, match="Expected a linear model to refit from sums, got mlp"):
        model.refit(alpha=1.0)
    with pytest.raises(ConfigError, match="Expected solver gradient beside model mlp"):
        shoal.fit(path, target="y", model="mlp", solver="exact")
    contents = json.loads(saved.read_text("utf-8"))
    contents["layers"]["biases"][0][0] += 1
    saved.write_text(json.dumps(contents))
    with pytest.raises(DamagedFile):
        shoal.load(saved)
    contents["checksum"] = "none"
    del contents["layers"]["biases"][0][0]
    saved.write_text(json.dumps(contents))
    with pytest.raises(StateError, match="its layers do not fit one another"):
        shoal.load(saved)


def test_without_pytorch_a_plain_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else found(name, *more)
    )
    with pytest.raises(ConfigError, match=r"trained by PyTorch, which is not installed here \(missing: torch\)"):
        shoal.fit(curved(tmp_path / "table.csv", 100), target="y", **KNOBS)


@pytest.mark.parametrize("yes_no", [False, True])
def test_columns_are_worth_what_scikit_learn_finds_them_worth(yes_no: bool, tmp_path: Path) -> None:
    """By shuffling the columns of the test rows 30 times; the product draws rows that lend instead."""
    path, saved = curved(tmp_path / "table.csv", 2000, yes_no=yes_no), tmp_path / "model.json"
    model = shoal.fit(path, target="y", **KNOBS)
    model.save(saved)
    frame = pd.read_csv(path)
    rows = frame.iloc[::TEST_EVERY]

    class Fitted:
        """What scikit-learn takes for a model."""

        def fit(self) -> None: ...

    def score(fitted: Any, X: pd.DataFrame, y: pd.Series[Any]) -> float:
        if not yes_no:
            return -float(((y - model.predict(X)) ** 2).mean())
        p = model.predict_proba(X)[:, 1]
        return 2 * float(np.log(np.where(y == "yes", p, 1 - p)).mean())

    columns = rows.drop(columns="y")
    wanted = permutation_importance(Fitted(), columns, rows["y"], scoring=score, n_repeats=30, random_state=0)
    worth = shoal.load(saved).explain().importance
    assert worth is not None
    assert (worth.part, worth.rows, worth.is_borrowed) == ("test", len(rows), True)
    assert worth.error == pytest.approx(-score(model, columns, rows["y"]), rel=1e-9)
    found = np.array([worth.rises[name] for name in columns])
    np.testing.assert_allclose(found, wanted.importances_mean, atol=0.1 * wanted.importances_mean.max())
    assert [*worth.rises] == sorted(worth.rises, key=lambda name: -(worth.rises[name] or 0.0))


def test_residuals_of_a_network_are_those_of_its_predictions(tmp_path: Path) -> None:
    path, saved = curved(tmp_path / "table.csv", 300), tmp_path / "model.json"
    model = shoal.fit(path, target="y", **KNOBS)
    model.save(saved)
    found = diagnose(saved, config_from({"file": str(path), "target": "y"}), own_data=True)
    frame = pd.read_csv(path)
    away = frame["y"] - model.predict(frame)
    assert found.test.rmse == pytest.approx(float((away[::TEST_EVERY] ** 2).mean() ** 0.5), rel=1e-12)
    assert found.largest.row[0] == int(away.abs().argmax())
    assert found.importance is not None
