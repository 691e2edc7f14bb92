"""Column steps of plug-ins: what they are told, where they are taken again, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal as api
from shoal.data.shapes import plugin_steps
from shoal.data.shapes.expression import as_text, evaluate, from_text
from shoal.errors import ConfigError, DataError, StateError, TrainingError
from shoal.fitting.model_file import load_model
from shoal.tasks.predict_rows import RowPredictor
from support.brought.example_plugin import at_hand

Install = Callable[..., None]
STEP = """
    import numpy as np
    from shoal.data.shapes.plugin_steps import ColumnStep
    class Mine(ColumnStep):
        version = {version!r}
        quantiles = {quantiles!r}
        def apply(self, x, at):
            {code}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    plugin_steps._known.cache_clear()
    yield from at_hand(tmp_path / "site", monkeypatch)
    plugin_steps._known.cache_clear()


def with_step(install: Install, code: str, quantiles: Any = (), version: Any = "1") -> None:
    made = STEP.format(code=code, quantiles=quantiles, version=version)
    install("plug-a", "shoal.column_steps", "mine = plug_a:Mine", made)


def rows(folder: Path) -> tuple[Path, pd.DataFrame]:
    random = np.random.default_rng(4)
    frame = pd.DataFrame({"a": random.uniform(-3, 3, 200).round(3), "b": random.normal(size=200).round(3)})
    frame["y"] = (np.abs(frame["a"]) + frame["b"] + 0.01 * random.normal(size=200)).round(4)
    frame.loc[::25, "a"] = np.nan
    frame["bought"] = np.where(frame["y"] > 1, "yes", "no")
    path = folder / "rows.csv"
    frame.to_csv(path, index=False)
    return path, frame


def by_hand(frame: pd.DataFrame, step: Callable[[Any], Any]) -> Any:
    """Least squares with the step, gaps filled with the median before it, by NumPy."""
    a = step(frame["a"].fillna(frame["a"].median()).to_numpy())
    X = np.column_stack([np.ones(len(frame)), a, frame["b"]])
    return X @ np.linalg.lstsq(X, frame["y"])[0]


def test_a_fit_with_a_step_is_that_of_numpy_and_predicts_alike_everywhere(install: Install, tmp_path: Path) -> None:
    with_step(install, "return np.abs(x)")
    path, frame = rows(tmp_path)
    out = tmp_path / "model.json"
    model = api.fit(path, "y", features=["a", "b"], transform=["a=step:mine"], out=str(out), engine="inline")
    expected = by_hand(frame, np.abs)
    assert set(model.report["coefficients"]) == {"mine(a)", "b"}
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-9)
    np.testing.assert_allclose(api.load(out).predict(frame), expected, rtol=1e-9)
    some = json.loads(frame[["a", "b"]].head(30).to_json(orient="records"))
    np.testing.assert_allclose(RowPredictor(load_model(out)).predict(some).predictions, expected[:30], rtol=1e-9)


@pytest.mark.parametrize("how", ["step:mine+plain", "step:mine+log1p"])
def test_a_step_stands_beside_other_ways_to_use_a_column(how: str, install: Install, tmp_path: Path) -> None:
    with_step(install, "return np.sign(x)")
    path, frame = rows(tmp_path)
    frame["a"] = frame["a"].abs()
    frame.to_csv(path, index=False)
    model = api.fit(path, "y", features=["a", "b"], transform=[f"a={how}"], interactions=["a:b"], engine="inline")
    assert {"mine(a)", "mine(a):b"} <= set(model.report["coefficients"])


def test_quantiles_are_those_of_the_training_rows(install: Install, tmp_path: Path) -> None:
    with_step(install, "return np.clip(x, *at)", (0.25, 0.75))
    path, frame = rows(tmp_path)
    out = tmp_path / "model.json"
    api.fit(path, "y", features=["a"], transform=["a=step:mine"], test_every=4, out=str(out), engine="inline")
    train = frame["a"][np.arange(len(frame)) % 4 > 0]
    low, high = train.quantile([0.25, 0.75])
    (term,) = [one for one in json.loads(out.read_text())["design"]["terms"] if one["type"] == "shaped"]
    assert from_text(term["expression"]) == ("step:mine@1/3", "x", pytest.approx(low), pytest.approx(high))


def test_models_of_yes_and_no_and_cross_validation_take_steps(install: Install, tmp_path: Path) -> None:
    with_step(install, "return np.abs(x)")
    path, _ = rows(tmp_path)
    plain = api.fit(path, "bought", model="logistic", features=["a", "b"], shrink="ridge", alpha=1.0, engine="inline")
    bent = api.fit(path, "bought", model="logistic", features=["a", "b"], shrink="ridge", alpha=1.0, engine="inline",
                   transform=["a=step:mine"])  # fmt: skip
    losses = [model.report["outcome"]["train"]["scores"]["log_loss"] for model in (bent, plain)]
    assert losses[0] < 0.7 * losses[1]
    tuned = api.fit(path, "y", model="ridge", features=["a", "b"], transform=["a=step:mine"], engine="inline")
    assert tuned.report["cross_validation"]["r2"] > 0.9


def test_another_version_of_a_step_is_refused(install: Install, tmp_path: Path) -> None:
    with_step(install, "return x * 2", version="1")
    path, frame = rows(tmp_path)
    out = tmp_path / "model.json"
    api.fit(path, "y", features=["a"], transform=["a=step:mine"], out=str(out), engine="inline")
    sys.modules["plug_a"].Mine.version = "2"
    plugin_steps._known.cache_clear()
    model = api.load(out)
    with pytest.raises(StateError, match=r"Expected version 1 of the column step 'mine'.* got version 2"):
        model.predict(frame)


WRONG = {
    "an error": ("return 1 / 0", "The column step 'mine' failed .ZeroDivisionError"),
    "too few": ("return x[:1]", r"Expected \(\d+,\) numbers of the column step 'mine', got \(1,\)"),
    "texts": ("return ['a'] * len(x)", "The column step 'mine' failed .ValueError"),
    "an exit": ("raise SystemExit(3)", "The column step 'mine' failed .SystemExit"),
    "no number": ("return np.sqrt(x)", "The column step 'mine' gives no finite number for -"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_step_that_is_wrong_is_told_with_its_name(case: str, install: Install, tmp_path: Path) -> None:
    code, said = WRONG[case]
    with_step(install, code)
    path, _ = rows(tmp_path)
    with pytest.raises(DataError, match=said):
        api.fit(path, "y", features=["a"], transform=["a=step:mine"], engine="inline")


@pytest.mark.parametrize(
    ("quantiles", "version", "said"),
    [((2.0,), "1", "quantiles as a tuple"), ([0.5], "1", "quantiles as a tuple"), ((), "a b", "a version such as")],
)
def test_what_a_step_says_of_itself_is_checked(
    quantiles: Any, version: Any, said: str, install: Install, tmp_path: Path
) -> None:
    with_step(install, "return x", quantiles, version)
    path, _ = rows(tmp_path)
    with pytest.raises(ConfigError, match=said):
        api.fit(path, "y", features=["a"], transform=["a=step:mine"], engine="inline")


@pytest.mark.parametrize("how", ["step:", "step:a b", "step:../x", "steps:mine", f"step:{'x' * 101}"])
def test_what_is_no_name_of_a_step_is_refused(how: str, tmp_path: Path) -> None:
    path, _ = rows(tmp_path)
    with pytest.raises(TrainingError, match="Expected ways to use a column"):
        api.fit(path, "y", features=["a"], transform=[f"a={how}"], engine="inline")


def test_a_step_that_is_not_installed_and_one_of_texts_are_refused(install: Install, tmp_path: Path) -> None:
    path, _ = rows(tmp_path)
    with pytest.raises(ConfigError, match="Expected as column step the name of an installed plug-in"):
        api.fit(path, "y", features=["a"], transform=["a=step:mine"], engine="inline")
    with_step(install, "return x")
    with pytest.raises(ConfigError, match="Expected a column of numbers or dates to use as step:mine, got 'bought'"):
        api.fit(path, "y", features=["bought"], transform=["bought=step:mine"], engine="inline")


def test_expressions_go_to_text_and_back(install: Install) -> None:
    with_step(install, "return x + sum(at)", (0.1, 0.9))
    made = ("+", ("step:mine@1/3", "x", 1.5, -2.0), 1.0)
    assert as_text(made) == "x 1.5 -2.0 step:mine@1/3 1.0 +"
    assert from_text(as_text(made)) == made
    np.testing.assert_allclose(evaluate(made, np.array([1.0, 2.0])), [1.5, 2.5])


@pytest.mark.parametrize(
    "text", ["x step:mine@1/2", "x step:mine@1/0", "x step:mine", "x step:../m@1/1", "step:mine@1/1"]
)
def test_a_damaged_expression_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"operands|expression|convert"):
        from_text(text)
