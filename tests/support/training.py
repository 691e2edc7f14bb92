"""What tests of gradient training need: runs in this process, and what scikit-learn and NumPy say of the same rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.linear_model import ElasticNet, Lasso, Ridge

from shoal.coordinator import Coordinator
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import Standing
from shoal.fitting.reports import Trained
from shoal.home import home
from shoal.metrics import Event, Round
from shoal.settings.values import config_from
from shoal.storage import open_storage
from shoal.storage.base import Command, Storage
from shoal.training.callbacks import Callback, Callbacks, RunView
from shoal.training.checkpoints import Checkpoints, Snapshot
from shoal.training.conductor import Conductor
from shoal.training.run import train_gradient
from shoal.training.session import Session
from support.engine_requests import WhoAmI
from support.runs import until
from support.tables import shared

Vector = npt.NDArray[np.float64]
MODES = ("sync", "ssp", "async", "local")
REGRESSION = {"concrete": "strength", "penguins": "body_mass_g", "auto_mpg": "mpg", "seattle_weather": "temp_max"}
EQUAL: dict[str, Any] = {"shards": 4, "partition": "contiguous"}
NAMES = [f"x{i}" for i in range(6)]
KNOBS: dict[str, Any] = {"batch_size": 8, "local_steps": 2, "shards": 7, "tolerance": 0, "epochs": 6}
ENDLESS: dict[str, Any] = {**KNOBS, "epochs": 1_000_000, "max_seconds": 240}  # that is never reached
Post = Callable[..., Callable[[Conductor], Any]]


# ------------------------------------------------------------------ runs


@dataclass
class Bench:
    """What one run is given and what it leaves."""

    folder: Path
    storage: Storage = field(default_factory=lambda: open_storage("memory://"))
    states: list[tuple[str, str]] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    outcome: Trained | None = None

    def __post_init__(self) -> None:
        self.checkpoints = Checkpoints(self.folder, keep=1000)

    def session(self, callbacks: Iterable[Callback]) -> Session:
        return Session(
            self.storage, self.checkpoints, Callbacks(callbacks, self._failed),
            lambda level, text: self.log.append((level, text)),
            lambda standing: self.states.append((standing.state, standing.cause)),
        )  # fmt: skip

    def _failed(self, text: str) -> None:
        self.log.append(("error", text))

    @property
    def trained(self) -> Trained:
        assert self.outcome is not None
        assert not [text for level, text in self.log if level == "error"]
        return self.outcome

    @property
    def done(self) -> Standing:
        return self.trained.report.ending

    @property
    def report(self) -> dict[str, Any]:
        return self.trained.report.as_dict()

    @property
    def w(self) -> Vector:
        return np.array(list(self.report["coefficients_standardized"].values()))

    @property
    def rounds(self) -> list[Round]:
        return self.storage.rounds(10**9)

    @property
    def steps(self) -> list[Round]:
        return [record for record in self.rounds if record.phase == "steps"]

    def events(self, *kinds: str) -> list[Event]:
        return [event for _, event in self.storage.events(kinds=kinds or None, limit=10**9)]


class Trainer:
    """Runs, each with a folder of its own; knobs that most runs share can be given once."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0

    def bench(self) -> Bench:
        self._count += 1
        folder = self._folder / f"checkpoints{self._count}"
        folder.mkdir(parents=True)
        return Bench(folder)

    def __call__(
        self, path: Path, target: str, *, workers: int = 0, engine: Engine | None = None, bench: Bench | None = None,
        callbacks: Iterable[Callback] = (), resume: Snapshot | None = None, **knobs: Any,
    ) -> Bench:  # fmt: skip
        """A run in this process (0 workers) or with worker processes; `workers` are never scaled."""
        bench = bench or self.bench()
        count = engine.workers if engine is not None else workers
        config = config_from({"file": str(path), "target": target, "solver": "gradient", "workers": count, **knobs})
        with opened(workers) if engine is None else contextlib.nullcontext(engine) as used:
            coordinator = Coordinator(used, home())
            bench.outcome = train_gradient(coordinator, config, bench.session(callbacks), resume)
        return bench


@contextlib.contextmanager
def opened(workers: int) -> Iterator[Engine]:
    """An engine whose workers are all there, or 0 for this process."""
    with ProcessEngine(workers, preload=["shoal.passes.gradient_loop"]) if workers else InlineEngine() as engine:
        until(lambda: len(set(engine.sweep([WhoAmI(0.02)] * workers))) == workers)
        yield engine


class At(Callback):
    """Does something once at each of some rounds: the first record from that round on."""

    def __init__(self, **actions: Callable[[Conductor], Any]) -> None:
        """Names are `roundN`."""
        self._left = {int(name.removeprefix("round")): action for name, action in actions.items()}

    def round_ended(self, run: RunView, round: Round) -> None:
        assert isinstance(run, Conductor)
        for due in sorted(number for number in self._left if number <= round.round):
            self._left.pop(due)(run)


class Each(Callback):
    """Does something after every record."""

    def __init__(self, action: Callable[[Conductor, Round], Any]) -> None:
        self._action = action

    def round_ended(self, run: RunView, round: Round) -> None:
        assert isinstance(run, Conductor)
        self._action(run, round)


class Script(Callback):
    """A course of actions: a generator that is resumed after every record, until it ends and with it the run."""

    def __init__(self, course: Callable[[Conductor], Iterator[None]], *, stop: bool = True) -> None:
        self._stop = stop
        self._course = course
        self._steps: Iterator[None] = iter(())
        self.ended = False

    def run_started(self, run: RunView) -> None:
        assert isinstance(run, Conductor)
        self._steps = self._course(run)

    def round_ended(self, run: RunView, round: Round) -> None:
        if not self.ended and next(self._steps, self) is self:
            self.ended = True
            if self._stop:
                run.stop("the script is at its end")


# ------------------------------------------------------------------ references


class Reference:
    """F over the rows of a file, by pandas and NumPy from the names of the columns; its least value by scikit-learn.

    F(w) = 1/(2n) ||y - Xs w||^2 + l1 ||w||_1 + l2/2 ||w||^2 over training rows, Xs and y in the units of the config.
    """

    def __init__(
        self, path: Path, target: str, names: Iterable[str], *, model: str = "linear", alpha: float = 1.0,
        l1_ratio: float = 0.5, intercept: bool = True, standardize: bool = True, test_every: int = 0, **_: Any,
    ) -> None:  # fmt: skip
        frame = pd.read_csv(path, dtype={"species": str, "island": str, "sex": str})
        test = np.arange(len(frame)) % test_every == 0 if test_every else np.zeros(len(frame), bool)
        train = frame[~test & frame[target].notna()]
        self.names = list(names)
        self.raw = np.column_stack([_column(train, name) for name in self.names])
        self.y = train[target].to_numpy(float)
        self.n = len(self.y)
        self.model, self.alpha, self.l1_ratio = model, alpha, l1_ratio
        self.centre = self.raw.mean(axis=0) if intercept else np.zeros(len(self.names))
        spread = self.raw.std(axis=0)
        self.scale = np.where(spread > 0, spread, 1.0) if standardize else np.ones(len(self.names))
        self.X = (self.raw - self.centre) / self.scale
        self.target = self.y - (self.y.mean() if intercept else 0.0)
        self.l1 = alpha * {"lasso": 1.0, "elasticnet": l1_ratio}.get(model, 0.0)
        self.l2 = {"ridge": alpha / self.n, "elasticnet": alpha * (1 - l1_ratio)}.get(model, 0.0)
        self.best = self._best()

    def _best(self) -> Vector:
        exact = {"fit_intercept": False, "tol": 1e-13, "max_iter": 1_000_000}
        if self.model == "linear":
            return np.linalg.lstsq(self.X, self.target)[0]
        found: Any
        if self.model == "ridge":
            found = Ridge(alpha=self.alpha, fit_intercept=False, solver="svd")
        elif self.model == "lasso":
            found = Lasso(alpha=self.alpha, **exact)
        else:
            found = ElasticNet(alpha=self.alpha, l1_ratio=self.l1_ratio, **exact)
        w: Vector = found.fit(self.X, self.target).coef_
        return w

    def value(self, w: Vector) -> float:
        return self._value(self.target - self.X @ w, w)

    def _value(self, residual: Vector, w: Vector) -> float:
        return float(residual @ residual / (2 * self.n) + self.l1 * np.abs(w).sum() + self.l2 / 2 * (w @ w))

    def distance(self, w: Vector) -> float:
        """(F(w) - F*) / (F(0) - F*)."""
        return self._share(self.value(w))

    def _share(self, value: float) -> float:
        least = self.value(self.best)
        return (value - least) / (self.value(np.zeros(len(self.names))) - least)

    def distance_of(self, report: dict[str, Any]) -> float:
        """The same for the coefficients and intercept in the units of the file."""
        coef = np.array([report["coefficients"][name] for name in self.names])
        return self._share(self._value(self.y - self.raw @ coef - report["intercept"], coef * self.scale))

    @property
    def kept(self) -> set[str]:
        return {name for name, w in zip(self.names, self.best, strict=True) if w}


def _column(train: pd.DataFrame, name: str) -> Vector:
    """`colour=red` is 1 where the column has that level; missing numbers become the median of the training rows."""
    column, _, level = name.partition("=")
    if not level:
        return train[name].fillna(train[name].median()).to_numpy(float)
    return train[column].fillna("__missing__").eq(level).to_numpy(float)


def reference_of(path: Path, target: str, bench: Bench, **knobs: Any) -> Reference:
    return Reference(path, target, bench.report["coefficients"], **knobs)


def generated(folder: Path, name: str = "generated.csv", rows: int = 400, columns: int = 6, seed: int = 5) -> Path:
    """Columns of different units, alike in pairs, some without effect."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, columns))
    X[:, 1::2] += 0.7 * X[:, : columns - columns % 2 : 2]
    X = X * 10.0 ** (np.arange(columns) % 4) + 3.0
    effect = np.where(np.arange(columns) % 3 == 2, 0.0, 2.0 / 10.0 ** (np.arange(columns) % 4))
    y = X @ effect + 5.0 + 0.5 * random.standard_normal(rows)
    return table(folder / name, X, y)


def table(path: Path, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Path:
    names = [f"x{i}" for i in range(X.shape[1])]
    pd.DataFrame({**dict(zip(names, X.T, strict=True)), "y": y}).to_csv(path, index=False)
    return path


def data(name: str, place: Path) -> tuple[Path, str]:
    if name == "generated":
        path = place / "generated.csv"
        return (path if path.exists() else generated(place)), "y"
    if name == "digits":
        return shared("data", "mnist", "digits_8x8.csv"), "label"
    return shared("data", "regression", f"{name}.csv"), REGRESSION[name]


def plain(place: Path, rows: int = 320, columns: int = 4) -> Path:
    """Shards of equal size, so that every epoch has the same steps: with 4 shards in file order."""
    path = place / f"plain{rows}x{columns}.csv"
    return path if path.exists() else generated(place, path.name, rows, columns)


STEPS = np.arange(21.0)
WAVE = np.array(  # orthogonal to all polynomials up to the fifth degree, as NIST made it
    [759.0, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048, -2048, 1838, -2048, 2048, -2048, 2523,
     -2048, 2048, -2048, 759]
)  # fmt: skip


def wampler(number: int) -> tuple[Vector, Vector]:
    X = np.column_stack([STEPS**k for k in range(1, 6)])
    y = sum((STEPS / 10) ** k for k in range(6)) if number == 2 else sum(STEPS**k for k in range(6))
    return X, y + {3: 1.0, 4: 100.0, 5: 10_000.0}.get(number, 0.0) * WAVE


def settled(bench: Bench) -> list[Command]:
    commands = bench.storage.commands()
    assert all(command.outcome is not None and command.round is not None for command in commands)
    return commands


def done_at(bench: Bench, number: int = 0) -> int:
    """The round after which a command was done."""
    command = settled(bench)[number]
    assert command.outcome == "done"
    assert command.round is not None
    return command.round


def wait_for(what: Callable[[], Any]) -> Iterator[None]:
    while not what():
        yield
