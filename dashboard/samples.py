"""The bundled samples: where each comes from, under which licence, and its bytes. Other data is uploaded."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from utils import home, write_atomically


@dataclass(frozen=True)
class Sample:
    """A small public table that everyone who installs the project has."""

    key: str
    title: str
    about: str
    target: str
    source: str  # markdown of ours, never of a file
    licence: str
    contents: Callable[[], bytes]

    @property
    def path(self) -> Path:
        return home() / "samples" / f"{self.key}.csv"

    def ensure(self) -> Path:
        """The file, written on first use."""
        if not self.path.exists():
            write_atomically(self.path, self.contents())
        return self.path


def _penguins() -> bytes:
    return importlib.resources.files("palmerpenguins").joinpath("data", "penguins.csv").read_bytes()


def _diabetes() -> bytes:
    from sklearn.datasets import load_diabetes  # a second's import that only this sample needs

    return str(load_diabetes(as_frame=True, scaled=False).frame.to_csv(index=False)).encode()


SAMPLES = {
    sample.key: sample
    for sample in (
        Sample(
            "penguins",
            "Palmer penguins",
            "344 penguins of three species: bill, flipper, sex, island, and body mass to predict.",
            "body_mass_g",
            "Gorman, Williams, Fraser (2014), [PLoS ONE 9(3): e90081](https://doi.org/10.1371/journal.pone.0090081); "
            "[palmerpenguins](https://pypi.org/project/palmerpenguins/) by Horst, Hill, Gorman",
            "CC0 1.0",
            _penguins,
        ),
        Sample(
            "diabetes",
            "Diabetes progression",
            "442 patients: age, sex, body mass index, blood values, and the disease a year later to predict.",
            "target",
            "Efron, Hastie, Johnstone, Tibshirani (2004), Least Angle Regression, Annals of Statistics 32(2); "
            "shipped with [scikit-learn](https://scikit-learn.org/stable/datasets/toy_dataset.html#diabetes-dataset)",
            "BSD 3-clause (scikit-learn)",
            _diabetes,
        ),
    )
}


def sample_at(path: Path) -> Sample | None:
    return next((sample for sample in SAMPLES.values() if sample.path == path), None)
