"""Real tables with a target that is no plain number: what they are made of, for the tests and for the tool that lets R
and statsmodels fit them. No column is coded here: each program codes text in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class GlmTable:
    """One table, the column to predict, and the model that suits it; all other columns are used."""

    name: str
    source: str
    target: str
    model: str
    frame: pd.DataFrame
    yes: str = ""  # of a yes/no target: the value that counts as 1


def glm_tables(data: Path) -> Iterator[GlmTable]:
    """From the folder of shared data, and from what scikit-learn brings along."""
    for name, made in _MAKERS.items():
        yield made(name, data)


def _penguins(data: Path) -> pd.DataFrame:
    return pd.read_csv(data / "regression" / "penguins.csv").dropna()


def _penguin_sex(name: str, data: Path) -> GlmTable:
    return GlmTable(name, "penguins.csv", "sex", "logistic", _penguins(data), "male")


def _penguin_species(name: str, data: Path) -> GlmTable:
    frame = _penguins(data)
    kept = frame[frame["species"] != "Gentoo"].drop(columns=["island", "sex", "bill_length_mm"])
    return GlmTable(name, "penguins.csv without Gentoo", "species", "logistic", kept, "Chinstrap")


def _auto_origin(name: str, data: Path) -> GlmTable:
    frame = _auto(data)
    frame["origin"] = np.where(frame["origin"] == "usa", "domestic", "foreign")
    return GlmTable(name, "auto_mpg.csv", "origin", "logistic", frame, "foreign")


def _auto(data: Path) -> pd.DataFrame:
    return pd.read_csv(data / "regression" / "auto_mpg.csv").drop(columns="name").dropna()


def _auto_thirsty(name: str, data: Path) -> GlmTable:
    frame = _auto(data)
    frame["mpg"] = (frame["mpg"] < 20).map({True: "yes", False: "no"})
    return GlmTable(name, "auto_mpg.csv, mpg under 20", "mpg", "logistic", frame, "yes")


def _auto_gamma(name: str, data: Path) -> GlmTable:
    return GlmTable(name, "auto_mpg.csv", "horsepower", "gamma", _auto(data))


def _auto_cylinders(name: str, data: Path) -> GlmTable:
    return GlmTable(name, "auto_mpg.csv", "cylinders", "poisson", _auto(data))


def _concrete(data: Path) -> pd.DataFrame:
    return pd.read_csv(data / "regression" / "concrete.csv")


def _concrete_strong(name: str, data: Path) -> GlmTable:
    frame = _concrete(data)
    frame["strength"] = (frame["strength"] > 40).astype(int)
    return GlmTable(name, "concrete.csv, strength over 40", "strength", "logistic", frame, "1")


def _concrete_gamma(name: str, data: Path) -> GlmTable:
    return GlmTable(name, "concrete.csv", "strength", "gamma", _concrete(data))


def _concrete_age(name: str, data: Path) -> GlmTable:
    return GlmTable(name, "concrete.csv, days", "age", "poisson", _concrete(data))


def _weather(data: Path) -> pd.DataFrame:
    return pd.read_csv(data / "regression" / "seattle_weather.csv").drop(columns="date")


def _wet(name: str, data: Path) -> GlmTable:
    frame = _weather(data).drop(columns="weather")
    frame["precipitation"] = np.where(frame["precipitation"] > 0, "wet", "dry")
    return GlmTable(name, "seattle_weather.csv", "precipitation", "logistic", frame, "wet")


def _rain(name: str, data: Path) -> GlmTable:
    frame = _weather(data)
    frame = frame[(frame["precipitation"] > 0) & frame["weather"].isin(["rain", "snow"])]
    return GlmTable(name, "seattle_weather.csv, wet days", "precipitation", "gamma", frame)


def _wind(name: str, data: Path) -> GlmTable:
    frame = _weather(data)
    frame["wind"] = np.floor(frame["wind"]).astype(int)
    return GlmTable(name, "seattle_weather.csv, whole m/s", "wind", "poisson", frame)


def _digits(name: str, data: Path) -> GlmTable:
    frame = pd.read_csv(data / "mnist" / "digits_8x8.csv")
    target = frame.columns[-1]
    pixels = frame.columns[:-1]
    sums = frame[pixels].to_numpy(float).reshape(len(frame), 8, 8)
    rows = pd.DataFrame(sums[:, :, 2:6].sum(axis=2)[:, 1:7], columns=[f"row{i}" for i in range(1, 7)])
    rows["digit"] = np.where(frame[target] == 8, "eight", "other")
    return GlmTable(name, "digits_8x8.csv, sums of rows of pixels", "digit", "logistic", rows, "other")


def _tumours(name: str, data: Path) -> GlmTable:
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    kept = frame[["mean radius", "mean texture", "mean smoothness", "mean symmetry", "target"]]
    return GlmTable(name, "breast cancer of scikit-learn", "target", "logistic", kept, "1")


def _diabetes(name: str, data: Path) -> GlmTable:
    from sklearn.datasets import load_diabetes

    frame = load_diabetes(as_frame=True, scaled=False).frame.drop(columns="s3")
    return GlmTable(name, "diabetes of scikit-learn", "target", "gamma", frame)


def _wine(name: str, data: Path) -> GlmTable:
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame
    kept = frame[frame["target"] != 0][["malic_acid", "ash", "magnesium", "total_phenols", "target"]]
    return GlmTable(name, "wine of scikit-learn, kinds 1 and 2", "target", "logistic", kept, "2")


_MAKERS: dict[str, Callable[[str, Path], GlmTable]] = {
    "penguin_sex": _penguin_sex, "penguin_species": _penguin_species, "auto_origin": _auto_origin,
    "auto_thirsty": _auto_thirsty, "auto_gamma": _auto_gamma, "auto_cylinders": _auto_cylinders,
    "concrete_strong": _concrete_strong, "concrete_gamma": _concrete_gamma, "concrete_age": _concrete_age,
    "wet": _wet, "rain": _rain, "wind": _wind, "digits": _digits, "tumours": _tumours, "diabetes": _diabetes,
    "wine": _wine,
}  # fmt: skip


def coded(table: GlmTable) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Design columns with our names by pandas' own coding, and the target as a number."""
    rest = table.frame.drop(columns=table.target)
    design = pd.get_dummies(rest, prefix_sep="=", drop_first=True).astype(float)
    y = table.frame[table.target]
    if table.yes:
        y = (y.astype(str) == table.yes).astype(float)
    return design, y.astype(float)


def linear_tables(data: Path) -> Iterator[GlmTable]:
    """Real tables with a target that is a plain number."""
    yield GlmTable("concrete", "concrete.csv", "strength", "linear", _concrete(data))
    yield GlmTable("auto_mpg", "auto_mpg.csv", "mpg", "linear", _auto(data))


def offset(rows: int, kind: str) -> np.ndarray:
    """A made-up offset by the number of the row: an exposure from 1 to 7, or something to add."""
    index = np.arange(rows)
    return 1.0 + 11 * index % 7 if kind == "exposure" else (11 * index % 7) / 5 - 0.6


def weights(rows: int, kind: str) -> np.ndarray:
    """Made-up weights by the number of the row: whole numbers from 0 to 4, or shares."""
    index = np.arange(rows)
    return (7 * index % 5).astype(float) if kind == "frequency" else 0.25 + (13 * index % 17) / 8
