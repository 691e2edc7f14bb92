"""Models of every kind, and other programs that run their exports as users would."""

from __future__ import annotations

import contextlib
import csv
import runpy
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import palmerpenguins
import pandas as pd
import pytest
import skops.io

import shoal
from shoal.exports.names import FORMATS
from shoal.fitting.model_file import SavedModel
from shoal.results.model import ModelFile
from support.tables import shoal as command

Floats = npt.NDArray[np.float64]
ALL = list(FORMATS)


# ------------------------------------------------------------------ other programs, as their users call them


def by_sqlite(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    doubled = [str(name).replace('"', '""') for name in frame.columns]
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        named = table.replace('"', '""')
        connection.execute(f'CREATE TABLE "{named}" ({", ".join(f"{chr(34)}{n}{chr(34)}" for n in doubled)})')
        rows = frame.astype(object).where(frame.notna(), None).values.tolist()
        connection.executemany(f'INSERT INTO "{named}" VALUES ({", ".join("?" * len(doubled))})', rows)
        found = connection.execute(path.read_bytes().decode())
        names = [part[0] for part in found.description][:-1]
        assert names in (list(frame.columns), [*frame.columns, "score"])  # which a mean follows from
        assert found.description[-1][0].startswith("prediction")
        answer = np.array([row[-1] for row in found], float)
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)
    return answer


def by_python(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    predict = runpy.run_path(str(path))["predict"]
    return np.array([predict(row) for row in frame.to_dict("records")])


def by_skops(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    assert skops.io.get_untrusted_types(file=path) == ["numpy.dtype"]
    found: Floats = skops.io.load(path, trusted=["numpy.dtype"]).predict(frame)
    return found


def by_onnxruntime(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {}
    for given in session.get_inputs():
        column = frame[given.name]
        if given.type == "tensor(double)":
            feeds[given.name] = column.to_numpy(float)[:, None]
        else:
            assert given.type == "tensor(string)"
            feeds[given.name] = column.astype(object).where(column.notna(), "").to_numpy(object)[:, None]
    (found,) = session.run(None, feeds)
    assert found.dtype == np.float64
    assert session.get_outputs()[0].type == "tensor(double)"
    return np.asarray(found[:, 0])


def by_json(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    found = shoal.load(path)
    dated = {name: pd.to_datetime(frame[name], unit="D") for name in found.report["dates"] if name in frame}
    frame = frame.assign(**dated)  # a model of ours takes dates as dates
    with pytest.warns() if has_unseen(found, frame) else contextlib.nullcontext():
        return found.predict(frame)


def has_unseen(model: Any, frame: pd.DataFrame) -> bool:
    """Among the columns that have a weight: others are not looked at."""
    known = model._file.design.known_levels
    weighty = {name for name in known if any(w and name in term for term, w in model.coefficients.items())}
    return any(not set(frame[name].fillna("__missing__")) <= set(known[name]) for name in weighty)


RUN: dict[str, Callable[[Path, pd.DataFrame, str], Floats]] = {
    "sql": by_sqlite, "python": by_python, "sklearn": by_skops, "onnx": by_onnxruntime, "json": by_json,
}  # fmt: skip


# ------------------------------------------------------------------ models


def penguins() -> pd.DataFrame:
    found = palmerpenguins.load_penguins()
    return found.assign(year=found["year"].astype(float))


def generated(rows: int = 200) -> pd.DataFrame:
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"a": random.normal(1e6, 3, rows), "b": random.normal(0, 1e-6, rows)})
    frame["t"] = random.choice(["u", "v", "w"], rows)
    frame["y"] = frame["a"] - 1e6 + 1e6 * frame["b"] + (frame["t"] == "v") * 3 + random.normal(0, 1, rows)
    frame.loc[::9, "a"] = np.nan
    return frame


def days() -> pd.DataFrame:
    frame = generated()
    return frame.assign(day=pd.date_range("2021-03-01 12:30", periods=len(frame), freq="31h"))


def shaped() -> pd.DataFrame:
    return days().drop(columns="b").assign(b=np.random.default_rng(6).normal(10, 3, 200))


def half_empty() -> pd.DataFrame:
    """A column without a value in the training rows: its indicator is there, its number is not."""
    frame = generated()
    return frame.assign(empty=np.where(np.arange(len(frame)) % 5 == 0, 7.0, np.nan))


CASES: dict[str, tuple[Callable[[], pd.DataFrame], str, dict[str, Any]]] = {
    "penguins": (penguins, "body_mass_g", {}),
    "full coding": (penguins, "body_mass_g", {"model": "ridge", "alpha": 2.0, "coding": "full"}),
    "indicators": (generated, "y", {"indicators": True}),
    "penguins indicators": (penguins, "body_mass_g", {"indicators": True, "model": "ridge", "alpha": 1.0, "coding": "full"}),
    "constant": (penguins, "body_mass_g", {"impute": "constant", "fill": -3.25}),
    "mean": (generated, "y", {"impute": "mean", "test_every": 5}),
    "drop": (penguins, "body_mass_g", {"impute": "drop"}),
    "dates": (days, "y", {"model": "ridge", "alpha": 0.5}),
    "no texts": (generated, "y", {"features": ["a", "b"]}),
    "only texts": (penguins, "body_mass_g", {"features": ["species", "sex"]}),
    "all zero": (penguins, "body_mass_g", {"model": "lasso", "alpha": 1e9}),
    "lasso": (penguins, "body_mass_g", {"model": "lasso", "alpha": 60.0}),
    "no intercept": (generated, "y", {"intercept": False}),
    "shapes": (shaped, "y", {
        "transform": ["a=log+bins(3)", "b=spline(4)+plain", "day=trend+month+weekday+day_of_year+hour"],
        "interactions": ["b:t", "a:b"], "indicators": True, "model": "ridge", "alpha": 0.5,
    }),
    "only an indicator": (half_empty, "y", {"indicators": True, "test_every": 5}),
}  # fmt: skip


def spoilt(frame: pd.DataFrame) -> pd.DataFrame:
    """With an unseen level in some rows and no value in others, in every column."""
    frame = frame.copy()
    for i, name in enumerate(frame.columns):
        frame.loc[frame.index % 7 == i, name] = None
        if not pd.api.types.is_numeric_dtype(frame[name]) and not pd.api.types.is_datetime64_any_dtype(frame[name]):
            frame.loc[frame.index % 11 == i, name] = "it's new"
    return frame


def predicted(folder: Path) -> Floats:
    """By `shoal predict`."""
    answer = command("predict", folder / "model.json", folder / "data.csv", "--out", folder / "out.csv")
    assert answer.code == 0, answer.err
    return read_predictions(folder / "out.csv")


def read_predictions(path: Path) -> Floats:
    with path.open() as lines:
        return np.array([float(row["prediction"]) for row in csv.DictReader(lines)])


def in_days(frame: pd.DataFrame) -> pd.DataFrame:
    if "day" in frame:
        day = pd.to_datetime(frame["day"])
        frame["day"] = np.where(day.isna(), np.nan, (day - pd.Timestamp(0)) / pd.Timedelta(days=1))
    return frame


def close(found: Floats, wanted: Floats, model: SavedModel) -> bool:
    """By what rounding can do: the terms of these models are not much larger than 1e9 times the prediction."""
    size = np.abs(wanted) + np.abs(model.intercept) + 1e-300
    return bool(np.max(np.abs(found - wanted) / size) < 1e-11)


def linear_contents(
    numbers: list[str] | None = None, levels: dict[str, list[str]] | None = None, target: str = "y"
) -> ModelFile:
    """A model file without a fit; all coefficients differ."""
    random = np.random.default_rng(3)
    numbers, levels = numbers or [], levels or {}
    terms: list[dict[str, Any]] = [{"type": "number", "column": n, "fill": float(random.normal())} for n in numbers]
    terms += [{"type": "indicator", "column": n} for n in numbers]
    terms += [{"type": "level", "column": n, "level": lv} for n, found in levels.items() for lv in found[1:]]
    names = [f"{t['column']}={t.get('level', '__missing__')}" if t["type"] != "number" else t["column"] for t in terms]
    coefficients = dict(zip(names, random.normal(size=len(names)).tolist(), strict=True))
    return ModelFile.from_dict({
        "format": "shoal-model", "version": 1, "model": "linear", "target": target, "alpha": None,
        "intercept": 0.375, "coefficients": coefficients, "coefficients_standardized": coefficients,
        "design": {"terms": terms, "known_levels": levels}, "config": {}, "data": {"file": "data.csv"},
    })  # fmt: skip
