"""The samples: where each comes from, under which licence, and its bytes; and tables that are made up on request."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from pathlib import Path

from shoal.data.generated import NAME, TARGET, Shape, shape_at
from shoal.errors import ConfigError
from shoal.home import samples_directory
from shoal.lazy.classes import dataclass
from shoal.utils import write_atomically


@dataclass(frozen=True)
class Sample:
    """A table that everyone who installs the project has, or can make; `contents` are its bytes, if bundled."""

    key: str
    title: str
    about: str
    target: str
    source: str  # markdown of ours, never of a file
    licence: str
    contents: Callable[[], bytes] | None = None

    @property
    def path(self) -> Path:
        return samples_directory() / f"{self.key.replace(':', '-')}.csv"

    def ensure(self) -> Path:
        """The file, written on first use."""
        if self.contents and not self.path.exists():
            write_atomically(self.path, self.contents())
        return self.path


def _penguins() -> bytes:
    return importlib.resources.files("palmerpenguins").joinpath("data", "penguins.csv").read_bytes()


def _seattle_weather() -> bytes:
    return (Path(__file__).parent / "samples_data" / "seattle-weather.csv").read_bytes()


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
            "seattle-weather",
            "Seattle weather",
            "1,461 days of weather: date, rain, wind, kind of weather, lowest temperature, and the highest to predict.",
            "temp_max",
            "NOAA National Climatic Data Center, 2012 to 2015; from "
            "[vega-datasets](https://www.npmjs.com/package/vega-datasets) 3.2.1",
            "public domain (U.S. Government work)",
            _seattle_weather,
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


# ------------------------------------------------------------------ made up on request


def generated_sample(shape: Shape) -> Sample:
    return Sample(
        f"generated:{shape.rows}x{shape.columns}",
        f"Generated, {shape.rows:,} × {shape.columns:,}",
        "Made-up numbers whose true coefficients are known.",
        TARGET,
        "Made on this machine by Shoal",
        "free for any use",
    )


def generated(key: str) -> Sample | None:
    """The made-up table of a key such as generated:500000x20, made already or not."""
    kind, _, size = key.partition(":")
    named = NAME.fullmatch(f"generated-{size}.csv") if kind == "generated" else None
    try:
        sample = generated_sample(Shape(int(named[1]), int(named[2]))) if named else None
    except ConfigError:
        return None
    return sample if sample and sample.key == key else None  # one key a table: no leading zeros


def generated_at(path: Path) -> Sample | None:
    shape = shape_at(path)
    return generated_sample(shape) if shape and shape.path == path else None
