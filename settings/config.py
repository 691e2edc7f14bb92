"""Every knob of a run once: name, default, meaning and check. Flags, YAML and the page's form all come from here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import ConfigError, Remedy
from shoal.settings.pairs import check_pair
from shoal.words import did_you_mean

MODELS = ("linear", "ridge", "lasso", "elasticnet")
CODINGS = ("drop_first", "full")
IMPUTATIONS = ("median", "mean", "constant", "drop")
BAD_ROW_CHOICES = ("limit", "stop", "skip")
DIALECT = ("delimiter", "decimal", "thousands", "encoding", "quote", "comment", "skip_lines", "header", "missing",
           "also_missing")  # fmt: skip
ENGINES = ("auto", "inline", "processes")
SOLVERS = ("exact", "gradient")
MODES = ("sync", "ssp", "async", "local")
SCHEDULES = ("constant", "step", "exponential", "cosine", "inverse")
COMPRESSIONS = ("none", "topk", "half")
PARTITIONS = ("hash", "contiguous")
PRECISIONS = ("auto", "float32", "float64")
LOSS_CHOICES = ("retry", "fewer", "stop")
AUTO = "auto"  # what a person writes for a knob whose `auto` value the config holds


_Values = Mapping[str, Any]  # all knobs of a run by their names


def knob(default: Any, help: str, group: str, **more: Any) -> Any:
    """One knob. What else may be said of it, all of it for forms:

    open:    it is among the first that one asks for, not folded away;
    unit:    what its number counts;
    step:    by how much one would change it at a time;
    blank:   what an empty field means, for a knob whose `auto` value or 0 stands for that;
    when:    whether it means anything beside these other values;
    needs:   what to set so that it does: a person who names it without is told so;
    plugins: the group of plug-ins whose names it takes, beside `known` ones;
    pages:   whether a page may set it; not what is a path of this machine (see `values.page_config`);
    of:      what a knob of names takes, where that is not any column: numbers, or pairs of columns.
    """
    metadata = {"help": help, "group": group, **more}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


RANGES: dict[str, tuple[float, float]] = {
    "alpha": (0, math.inf), "l1_ratio": (0, 1), "test_fraction": (0, 0.9), "confidence": (0.5, 0.9999),
    "max_levels": (1, 20_000), "workers": (0, 512), "fill": (-math.inf, math.inf), "skip_lines": (0, 1_000_000),
    "epochs": (0, 1_000_000), "tolerance": (0, 1), "finish_passes": (0, 100_000_000), "max_seconds": (0, math.inf),
    "patience": (0, 1_000_000), "batch_size": (0, 2**31), "local_steps": (0, 1_000_000), "staleness": (0, 1_000_000),
    "learning_rate": (0, math.inf), "warmup": (0, 1_000_000), "decay": (1e-6, 1), "decay_every": (1e-6, 1_000_000),
    "momentum": (0, 0.9999), "clip": (0, math.inf), "top_k": (1e-6, 1), "prefetch": (-1, 1000), "max_memory": (0.05, 1),
    "shards": (0, 100_000), "checkpoint_seconds": (0, 1_000_000), "keep_checkpoints": (1, 1000), "restarts": (0, 1000),
}  # fmt: skip


def training(default: Any, help: str, group: str, **more: Any) -> Any:
    """A knob that only gradient runs look at."""
    return knob(default, help, group, training=True, **more)


def _has_own_penalty(values: _Values) -> bool:
    return values["solver"] == "gradient" and bool(values["penalty"])


def _is_penalised(values: _Values) -> bool:
    return values["model"] != "linear" or _has_own_penalty(values)


def _mixes_penalties(values: _Values) -> bool:
    return values["model"] == "elasticnet" or _has_own_penalty(values)


def _is_tested(values: _Values) -> bool:
    return bool(values["test_every"] or values["test_fraction"])


def _draws(values: _Values) -> bool:
    return bool(values["test_fraction"]) or values["solver"] == "gradient"


def _has_momentum(values: _Values) -> bool:
    return values["mode"] != "local" and values["step_rule"] not in ("sgd", "adagrad")  # a plug-in takes it as well


def _decays(values: _Values) -> bool:
    return str(values["schedule"]) in ("step", "exponential", "inverse")


def _has_processes(values: _Values) -> bool:
    return str(values["engine"]) != "inline"


def not_one_of(name: str, value: Any, choices: Iterable[Any]) -> ConfigError:
    """What to say of a choice that there is not; `name` is the knob's, or its flag."""
    known = [str(choice) for choice in choices]
    meant = did_you_mean(str(value), known) or " Choose one of them."
    knob_ = name.removeprefix("--").replace("-", "_")
    return ConfigError(f"Expected {name} to be one of {', '.join(known)}, got '{value}'.{meant}", knobs=[knob_])


@dataclass(frozen=True)
class RunConfig:
    """What to fit, to which file, and how."""

    # fmt: off
    file: str = knob(
        "", "the CSV file, plain or packed (gz, zip, bz2, xz, zst), or the Parquet file; - for standard input", "place",
        pages=False,
    )
    target: str = knob("", "the column to predict", "model", open=True)
    model: str = knob("linear", "linear, ridge, lasso or elasticnet", "model", choices=MODELS, open=True)
    alpha: float = knob(
        1.0, "strength of the penalty, as in scikit-learn's estimator of that name", "model",
        open=True, step=0.1, when=_is_penalised, needs=(("model", "ridge"),),
    )
    l1_ratio: float = knob(
        0.5, "elastic net only: share of the L1 part, 0 to 1", "model",
        open=True, step=0.05, when=_mixes_penalties, needs=(("model", "elasticnet"),),
    )
    features: tuple[str, ...] = knob((), "columns to use; all others are left out", "table", metavar="a,b", open=True)
    exclude: tuple[str, ...] = knob((), "columns to leave out", "table", metavar="a,b", open=True)
    categorical: tuple[str, ...] = knob(
        (), "columns whose values are names, whatever they look like", "reading", metavar="a,b"
    )
    numeric: tuple[str, ...] = knob(
        (), "columns whose values are numbers, whatever they look like", "reading", metavar="a,b"
    )
    coding: str = knob(
        "drop_first", "one 0/1 column for each level of a text column: all but the first, or all", "table",
        choices=CODINGS,
    )
    max_levels: int = knob(100, "a text column with more levels is left out", "table", unit="levels", step=10)
    impute: str = knob("median", "what replaces a missing number", "table", choices=IMPUTATIONS)
    fill: float = knob(
        0.0, "the number used by --impute constant", "table",
        step=1.0, when=lambda v: v["impute"] == "constant", needs=(("impute", "constant"),),
    )
    squares: tuple[str, ...] = knob(
        (), "columns of numbers that are used squared as well", "table", metavar="a,b", of="numbers"
    )
    interactions: tuple[str, ...] = knob(
        (), "pairs of columns whose product is used as well; a text column gives one a level", "table",
        metavar="a:b,c:d", of="pairs",
    )
    indicators: bool = knob(False, "add a 0/1 column for each column with missing numbers", "table")
    test_every: int = knob(
        0, "one row in so many is kept for testing (rows 0, N, 2N, ...); 0 for none", "split",
        open=True, unit="rows",
    )
    test_fraction: float = knob(
        0.0, "share of rows, chosen by a hash of the row index, kept for testing", "split", open=True, step=0.05
    )
    seed: int = knob(0, "the seed of all random choices: test rows, shards, order of batches", "split", when=_draws)
    intercept: bool = knob(True, "fit an intercept (never penalised)", "model")
    standardize: bool = knob(
        True, "scale all columns to mean 0 and standard deviation 1 before the penalty is applied", "model"
    )
    confidence: float = knob(
        0.95, "of the intervals of a linear model", "model",
        step=0.01, when=lambda v: v["model"] == "linear" and v["solver"] == "exact",
        needs=(("model", "linear"), ("solver", "exact")),
    )
    engine: str = knob(
        "auto", "where the work is done: in this process, or in worker processes", "workers", choices=ENGINES
    )
    workers: int = knob(
        0, "worker processes; 0 or 'auto' for one per core", "workers",
        metavar="N|auto", auto=0, blank="one per core", unit="processes", when=_has_processes,
    )
    delimiter: str | None = knob(None, "the character between fields; detected if not given", "reading")
    decimal: str | None = knob(None, "the decimal mark; detected if not given", "reading")
    thousands: str | None = knob(None, "the mark between groups of three digits; detected if not given", "reading")
    encoding: str | None = knob(None, "of the text; detected if not given", "reading")
    quote: str | None = knob(None, "around fields with delimiters or newlines; detected if not given", "reading")
    comment: str | None = knob(
        None, "lines that begin with this are skipped; detected if not given", "reading"
    )
    skip_lines: int | None = knob(
        None, "lines above the table, which are skipped; detected if not given", "reading", metavar="N", unit="lines"
    )
    header: bool | None = knob(
        None, "whether the first row has the names of the columns; detected if not given", "reading"
    )
    missing: tuple[str, ...] | None = knob(
        None, "texts that mean a missing value", "reading", metavar="TOKENS"
    )
    also_missing: tuple[str, ...] = knob(
        (), "texts that mean a missing value beside the usual ones; COLUMN=TEXT for one column", "reading",
        metavar="TOKENS",
    )
    on_bad_rows: str = knob(
        "limit",
        "rows that cannot be read: stop at once, skip them all, or skip up to 1 % and at most 100",
        "reading",
        choices=BAD_ROW_CHOICES,
    )
    out: str | None = knob(
        None, "where to write the model; - for standard output", "place", metavar="model.json", pages=False
    )
    solver: str = knob(
        "exact", "how the optimum is found: exactly, or by gradient steps of workers", "solver",
        choices=SOLVERS, open=True,
    )
    # The rest is for gradient runs only.
    mode: str = training(
        "sync", "when a gradient may be applied: sync, ssp, async or local", "solver", choices=MODES, open=True
    )
    epochs: int = training(
        10, "passes over the rows by gradient steps, before the finish", "steps", open=True, unit="epochs"
    )
    tolerance: float = training(
        1e-6,
        "finish with full passes until the relative distance to the optimum is at most this; 0 for no finish",
        "stopping",
        blank="no finish",
    )
    finish_passes: int = training(
        5_000, "the most full passes of the finish", "stopping",
        unit="passes", step=100, when=lambda v: v["tolerance"] > 0, needs=(("tolerance", 1e-6),),
    )
    max_seconds: float = training(
        0.0, "stop after so many seconds; 0 for no limit", "stopping", unit="s", step=10.0, blank="no limit"
    )
    patience: int = training(
        0, "stop after so many epochs without a better score on the test rows; 0: do not", "stopping",
        unit="epochs", blank="never", when=_is_tested,
    )
    batch_size: int = training(
        0, "rows of a shard in one step; 0 or 'auto': from the measured cost of messages", "steps",
        auto=0, open=True, unit="rows", step=64, blank="auto",
    )
    local_steps: int = training(
        0, "mode local: steps of a shard between two averages; 0 or 'auto'", "steps",
        auto=0, open=True, unit="steps", blank="auto", when=lambda v: v["mode"] == "local", needs=(("mode", "local"),),
    )
    staleness: int = training(
        4, "mode ssp: how many updates old the weights behind a gradient may be", "steps",
        open=True, unit="updates", when=lambda v: v["mode"] == "ssp", needs=(("mode", "ssp"),),
    )
    step_rule: str = training(
        "sgd", "sgd, momentum, adagrad, adam, or one of a plug-in", "steps",
        metavar="NAME", open=True, known=("sgd", "momentum", "adagrad", "adam"), plugins="shoal.step_rules",
        when=lambda v: v["mode"] != "local", needs=(("mode", "sync"),),
    )
    learning_rate: float = training(
        0.0, "the step size; 0 or 'auto': from the curvature of the data", "steps",
        auto=0.0, open=True, step=0.01, blank="auto",
    )
    schedule: str = training(
        "constant", "how the learning rate changes over the epochs", "steps", choices=SCHEDULES, open=True
    )
    warmup: float = training(
        0.0, "epochs over which the learning rate rises, from a tenth", "schedule",
        unit="epochs", step=0.5, blank="none",
    )
    decay: float = training(
        0.5, "schedules step, exponential, inverse: share of the learning rate left after decay_every epochs", "steps",
        open=True, step=0.05, when=_decays, needs=(("schedule", "exponential"),),
    )
    decay_every: float = training(
        1.0, "the epochs after which that share is left", "steps",
        open=True, unit="epochs", step=0.5, when=_decays, needs=(("schedule", "exponential"),),
    )
    momentum: float = training(
        0.9, "of the step rule momentum, and the first moment of adam", "steps",
        open=True, step=0.01, when=_has_momentum, needs=(("step_rule", "momentum"), ("mode", "sync")),
    )
    clip: float = training(
        0.0, "gradients with a larger norm are scaled down to this; 0 for no limit", "schedule",
        step=1.0, blank="no limit", when=lambda v: v["mode"] != "local", needs=(("mode", "sync"),),
    )
    compression: str = training(
        "none", "how gradients are sent: in full, the largest values only, or in 16 bits", "steps",
        choices=COMPRESSIONS, open=True,
    )
    top_k: float = training(
        0.1, "compression topk: share of the values that are sent", "steps",
        open=True, step=0.05, when=lambda v: v["compression"] == "topk", needs=(("compression", "topk"),),
    )
    prefetch: int = training(
        -1, "batches that are read ahead; -1 or 'auto': as memory allows", "feed",
        auto=-1, metavar="N|auto", unit="batches", blank="auto",
    )
    max_memory: float = training(
        0.8, "share of memory in use above which nothing is read ahead", "feed", step=0.05
    )
    shards: int = training(
        0, "logical shards of the rows; 0 or 'auto': from the size of the data", "feed",
        auto=0, unit="shards", blank="auto",
    )
    partition: str = training(
        "hash", "how rows are given to shards: at random, or in the order of the file", "feed", choices=PARTITIONS
    )
    precision: str = training("auto", "floating-point type of the gradients", "feed", choices=PRECISIONS)
    penalty: str = training(
        "", "a plug-in's penalty in place of the model's own", "model",
        metavar="NAME", known=("",), plugins="shoal.penalties",
        when=lambda v: v["model"] == "linear" or bool(v["penalty"]),
    )
    callbacks: tuple[str, ...] = training(
        (), "plug-ins that are called as the run goes on", "safety", metavar="a,b", plugins="shoal.callbacks"
    )
    checkpoint_seconds: float = training(5.0, "seconds between two checkpoints", "safety", unit="s", step=1.0)
    keep_checkpoints: int = training(
        5, "checkpoints that are kept as they are; older ones are thinned and archived", "safety", unit="checkpoints"
    )
    on_worker_loss: str = training(
        "retry", "a lost worker: replace it, go on with fewer, or stop", "safety",
        choices=LOSS_CHOICES, when=_has_processes,
    )
    restarts: int = training(
        3, "times in a row that a worker is replaced before the run goes on without it", "safety",
        unit="times", when=lambda v: v["on_worker_loss"] == "retry" and _has_processes(v),
    )
    # fmt: on

    def __post_init__(self) -> None:
        self._check_choices()
        for name, (low, high) in RANGES.items():
            if (value := getattr(self, name)) is not None:
                self._check_range(name, value, low, high)
        if self.test_every < 0 or self.test_every == 1:
            raise ConfigError(
                f"Expected test_every to be 0 (no test rows) or at least 2, got {self.test_every}. "
                "5 keeps every fifth row for testing.",
                knobs=["test_every"],
            )
        if self.test_every and self.test_fraction:
            raise ConfigError(
                "Both test_every and test_fraction are given; expected one of them. Drop one.",
                knobs=["test_every", "test_fraction"],
            )
        if self.patience and not (self.test_every or self.test_fraction):
            raise ConfigError(
                "Expected test rows, whose score patience is about, got none. Set test_every or test_fraction too.",
                knobs=["patience"],
            )
        if self.target and self.target in self.features:
            raise ConfigError(
                f"The target '{self.target}' is also among the features. Take it out of one of them.",
                knobs=["target", "features"],
            )
        for pair in self.interactions:
            check_pair(pair)

    def _check_choices(self) -> None:
        for knob_ in dataclasses.fields(self):
            choices = knob_.metadata.get("choices")
            value = getattr(self, knob_.name)
            if choices and value not in choices:
                raise not_one_of(knob_.name, value, choices)

    def _check_range(self, name: str, value: float, low: float, high: float) -> None:
        if not (low <= value <= high) or math.isinf(value):
            ends = f"from {low:g} to {high:g}" if not math.isinf(high) else f"of at least {low:g}"
            ends = "that is finite" if math.isinf(low) else ends
            raise ConfigError(
                f"Expected {name} to be a number {ends}, got {value:g}. Correct it and try again.", knobs=[name]
            )

    def ready(self, target: bool = True) -> None:
        """Refuse what is asked for without the file to read or, where one is fitted, the target."""
        if not self.file:
            raise ConfigError("Expected a file to read, got none. Name a CSV or Parquet file.")
        if target and not self.target:
            raise ConfigError("Expected a target, the column to predict; got none.", Remedy.choose("Name it", "target"))

    @property
    def dialect(self) -> dict[str, Any]:
        """What is known of the dialect; the rest is detected."""
        return {name: getattr(self, name) for name in DIALECT if getattr(self, name) is not None}

    @classmethod
    def knobs(cls) -> dict[str, dataclasses.Field[Any]]:
        """All knobs by their names."""
        return {knob_.name: knob_ for knob_ in dataclasses.fields(cls)}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and YAML."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }
