"""Every knob of a run once: name, default, meaning and check. Flags, YAML and the page's form all come from here."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from shoal.errors import ConfigError, Remedy
from shoal.lazy.classes import dataclass
from shoal.settings import checks, when
from shoal.settings.checks import knob, training

ALL_MODELS = (*when.MODELS, *when.LOSSES, when.NETWORK, when.BY_TARGET, when.MODULE)
BAD_ROW_CHOICES = ("limit", "stop", "skip")
DIALECT = ("delimiter", "decimal", "thousands", "encoding", "quote", "comment", "skip_lines", "header", "missing",
           "also_missing", "dates", "limits", "one_spelling", "sheet")  # fmt: skip
PARTS = ("alike", "common", "mixed", "any")
ENGINES = ("auto", "inline", "processes", "ray")
ON_CLUSTER = ("cluster", "open_cluster")  # knobs beside engine ray
MODES = ("sync", "ssp", "async", "local")
SCHEDULES = ("constant", "step", "exponential", "cosine", "inverse")
COMPRESSIONS = ("none", "topk", "half")
AUTO = "auto"  # what a person writes for a knob whose `auto` value the config holds


@dataclass(frozen=True)
class RunConfig:
    """What to fit, to which file, and how."""

    # fmt: off
    file: str = knob(
        "", "the CSV file, plain or packed (gz, zip, bz2, xz, zst), Excel or Parquet file; several, a folder or a "
        "pattern are one table; - for standard input", "place", pages=False,
    )
    target: str = knob("", "the column to predict", "model", open=True)
    model: str = knob(
        "linear", "linear, ridge, lasso, elasticnet; logistic for yes or no, multinomial for classes, poisson for "
        "counts, gamma for positive skewed numbers, lognormal for these by their logarithms, huber where some rows are "
        "far off, quantile for a quantile; mlp: a neural network (needs PyTorch); auto: by the target's values",
        "model", choices=ALL_MODELS, unlisted=(when.MODULE,), open=True,
    )
    shrink: str = knob(
        "none", "all but linear models and networks: the penalty on their coefficients, as ridge, lasso or elasticnet",
        "model", choices=checks.SHRINKS, open=True, when=when.has_other_loss, needs=(("model", "logistic"),),
    )
    alpha: float | None = knob(
        None, "strength of the penalty, as in scikit-learn's estimator of that name; if not given, by "
        "cross-validation",
        "model", metavar="A|auto", auto=None, blank="chosen by cross-validation", open=True, step=0.1,
        when=when.is_penalised, needs=(("model", "ridge"),), needs_there=(("shrink", "ridge"),),
    )
    l1_ratio: float = knob(
        0.5, "elastic net only: share of the L1 part, 0 to 1", "model", open=True, step=0.05, when=when.mixes_penalties,
        needs=(("model", "elasticnet"),), needs_there=(("shrink", "elasticnet"),),
    )
    nonnegative: bool = knob(
        False, "linear models: no coefficient below 0; that of the intercept is free", "model",
        when=when.is_least_squares, needs=(("model", "linear"), ("solver", "exact")),
    )
    positive: str = knob(
        "", "logistic and mlp: which of the target's two values is the yes that probabilities are of", "model",
        blank="by itself", when=lambda v: v["model"] in ("logistic", when.NETWORK), needs=(("model", "logistic"),),
    )
    hidden: str = knob(
        "auto", "mlp only: the sizes of its hidden layers, such as 64,32; auto: by rows and columns", "model",
        metavar="64,32|auto", open=True, when=when.has_layers, needs=(("model", when.NETWORK),),
    )
    huber_epsilon: float = knob(
        1.35, "huber only: from how many scales on a row counts by the size of its error and no more by its square; "
        "smaller is more robust", "model", open=True, step=0.05, when=lambda v: v["model"] == "huber",
        needs=(("model", "huber"),),
    )
    quantile: float = knob(
        0.5, "quantile only: which quantile is predicted; 0.5 is the median, 0.9 has nine rows of ten below it",
        "model", open=True, step=0.05, when=lambda v: v["model"] == "quantile", needs=(("model", "quantile"),),
    )
    features: tuple[str, ...] = knob((), "columns to use; all others are left out", "table", metavar="a,b", open=True)
    exclude: tuple[str, ...] = knob((), "columns to leave out", "table", metavar="a,b", open=True)
    weights: str = knob(
        "", "the column that says how much each row counts; it is no feature", "table", metavar="COLUMN", of="weights",
        blank="all alike",
    )
    weights_are: str = knob(
        "importance", "what weights mean: how many equal rows a row stands for (frequency), or how much it counts "
        "(importance); standard errors differ", "table", choices=checks.WEIGHTS,
        when=lambda v: bool(v["weights"]), needs=(("weights", "COLUMN"),),
    )
    offset: str = knob(
        "", "logistic, poisson, gamma, lognormal: a column that is added to each row's score with a coefficient of 1; "
        "predictions need it too", "table", metavar="COLUMN", of="weights", blank="none", when=when.adds_offset,
        needs=(("model", "poisson"),),
    )
    offset_as: str = knob(
        "added", "how the offset comes in: as it is, or by its logarithm, as an exposure such as time", "table",
        choices=checks.OFFSETS, when=lambda v: when.adds_offset(v) and bool(v["offset"]),
        needs=(("model", "poisson"), ("offset", "COLUMN")),
    )
    class_weight: str = knob(
        "none", "logistic and multinomial: balanced lets all values of the target count as much, however rare one is",
        "model", choices=checks.CLASS_WEIGHTS, when=when.tells_classes_apart, needs=(("model", "logistic"),))
    categorical: tuple[str, ...] = knob(
        (), "columns whose values are names, whatever they look like", "reading", metavar="a,b"
    )
    numeric: tuple[str, ...] = knob(
        (), "columns whose values are numbers, whatever they look like", "reading", metavar="a,b"
    )
    coding: str = knob(
        "reference", "one 0/1 column for each level of a text column: all but the one that others are compared with, "
        "all, or all but the first by alphabet, no value included", "table", choices=checks.CODINGS,
    )
    reference: tuple[str, ...] = knob(
        (), "the level that the others of a text column are compared with, in place of the first by alphabet", "table",
        metavar="city=Oslo", of="levels", when=lambda v: v["coding"] == "reference", needs=(("coding", "reference"),),
    )
    max_levels: int = knob(
        100, "a text column with more levels is left out; beyond 20000 they are kept sparse", "table", unit="levels",
        step=10, metavar="N|unlimited", words={"unlimited": 2**31 - 2},
    )
    min_level_rows: int = knob(
        0, "levels of a text column with fewer training rows become one; 0: none", "table", unit="rows", blank="none do"
    )
    impute: str = knob("median", "what replaces a missing number", "table", choices=checks.IMPUTATIONS)
    fill: float = knob(
        0.0, "the number used by --impute constant", "table",
        step=1.0, when=lambda v: v["impute"] == "constant", needs=(("impute", "constant"),))
    squares: tuple[str, ...] = knob(
        (), "columns of numbers that are used squared as well", "table", metavar="a,b", of="numbers"
    )
    interactions: tuple[str, ...] = knob(
        (), "pairs of columns whose product is used as well; a text column gives one a level", "table",
        metavar="a:b,c:d", of="pairs",
    )
    transform: tuple[str, ...] = knob(
        (), "how a column is used: log, log1p, sqrt, bins(5), spline(5), of dates year, month, weekday, day_of_year, "
        "hour, trend; plain: as it is, beside others; of texts hash(18), words(18): 2^18 columns", "table",
        metavar="area=log", of="transforms",
    )
    indicators: bool = knob(False, "add a 0/1 column for each column with missing numbers", "table")
    rules: tuple[str, ...] = knob(
        (), "plug-ins that say what has to hold of a table; one may refuse it", "table", metavar="a,b",
        plugins="shoal.validation_rules", when=lambda v: v["model"] != when.MODULE)
    metrics: tuple[str, ...] = knob(
        (), "plug-ins that say how good predictions are, beside the usual scores", "split", metavar="a,b",
        plugins="shoal.metrics", when=lambda v: v["model"] != when.MODULE)
    test_every: int = knob(
        0, "one row in so many is kept for testing (rows 0, N, 2N, ...); 0 for none", "split", open=True, unit="rows"
    )
    test_fraction: float = knob(
        0.0, "share of rows, chosen by a hash of the row index, kept for testing", "split", open=True, step=0.05
    )
    seed: int = knob(0, "the seed of all random choices: test rows, shards, order of batches", "split", when=when.draws)
    intercept: bool = knob(True, "fit an intercept (never penalised)", "model")
    standardize: bool = knob(
        True, "scale all columns to mean 0 and standard deviation 1 before the penalty is applied", "model"
    )
    confidence: float = knob(
        0.95, "of the intervals of a model without penalty", "model",
        step=0.01, when=when.has_formulas, needs=(("model", "linear"), ("solver", "exact")),
        needs_there=(("shrink", "none"),))
    bands: float = knob(
        0.0, "models of numbers: two quantile lines beside the model, so that prediction intervals of this level, such "
        "as 0.9, are as wide as rows spread there; they need test rows; 0: none", "model", step=0.05, blank="none",
        when=when.has_bands, needs=(("model", "linear"), ("solver", "exact"), ("test_every", 5)),
        needs_there=(("solver", "exact"), ("model", "quantile"), ("test_every", 5)))
    robust: str = knob(
        "none", "standard errors that hold whatever the spread of each row, of a model without penalty", "model",
        choices=checks.ROBUST, when=when.has_formulas, needs=(("model", "linear"), ("solver", "exact")),
        needs_there=(("shrink", "none"),))
    register: str = knob("", "save the finished model under this name, as a version of it", "model", metavar="NAME")
    engine: str = knob(
        "auto", "where the work is done: in this process, in worker processes, or on a Ray cluster", "workers",
        choices=ENGINES,
    )
    cluster: str = knob(
        "", "engine ray: the address of the cluster; a small one of this machine if not given", "place",
        metavar="HOST:PORT", pages=False, when=when.on_cluster, needs=(("engine", "ray"),),
    )
    open_cluster: bool = knob(
        False, "engine ray: use a cluster that asks nobody for a token", "place",
        pages=False, when=when.on_cluster, needs=(("engine", "ray"),),
    )
    workers: int = knob(
        0, "worker processes; 0 or 'auto' for one per core", "workers",
        metavar="N|auto", auto=0, blank="one per core", unit="processes", when=when.has_processes,
    )
    delimiter: str | None = knob(None, "the character between fields; detected if not given", "reading")
    decimal: str | None = knob(None, "the decimal mark; detected if not given", "reading")
    thousands: str | None = knob(None, "the mark between groups of three digits; detected if not given", "reading")
    encoding: str | None = knob(None, "of the text; detected if not given", "reading")
    quote: str | None = knob(None, "around fields with delimiters or newlines; detected if not given", "reading")
    comment: str | None = knob(None, "lines that begin with this are skipped; detected if not given", "reading")
    skip_lines: int | None = knob(
        None, "lines above the table, which are skipped; detected if not given", "reading", metavar="N", unit="lines"
    )
    header: bool | None = knob(None, "whether the first row has the columns' names; detected if not given", "reading")
    missing: tuple[str, ...] | None = knob(None, "texts that mean a missing value", "reading", metavar="TOKENS")
    also_missing: tuple[str, ...] = knob(
        (), "texts that mean a missing value beside the usual ones; COLUMN=TEXT for one column; one with a comma in "
        "double quotes", "reading", metavar="TOKENS",
    )
    dates: tuple[str, ...] = knob(
        (), "order of dates, if it cannot be told: year-first, day-first or month-first; COLUMN=... for one column",
        "reading", metavar="ORDERS",
    )
    limits: tuple[str, ...] = knob(
        (), "how <0.5 and >200 among numbers are read: limit (0.5), half (0.25; 200) or missing; COLUMN=... for one "
        "column", "reading", metavar="WAYS",
    )
    one_spelling: tuple[str, ...] = knob(
        (), "columns whose texts differ in capitals and blanks by mistake: Ja, ja and JA are all read as ja", "reading",
        metavar="a,b",
    )
    sheet: str | None = knob(None, "of a workbook, by its name or number; the first if not given", "reading")
    parts: str = knob(
        "alike", "how files of one table may differ: not at all; common: columns that some lack are left out; "
        "mixed: each is written in its own way; any: both", "reading", choices=PARTS,
    )
    on_bad_rows: str = knob(
        "limit", "rows that cannot be read: stop at once, skip them all, or skip up to 1 % and at most 100", "reading",
        choices=BAD_ROW_CHOICES,
    )
    out: str | None = knob(
        None, "where to write the model; - for standard output", "place", metavar="model.json", pages=False
    )
    solver: str = knob(
        "exact", "how the optimum is found: exactly, or by gradient steps of workers", "solver",
        choices=checks.SOLVERS, open=True)
    # The rest is for gradient runs only.
    mode: str = training(
        "sync", "when a gradient may be applied: sync, ssp, async or local; auto: sync or local, as messages allow",
        "solver", choices=(*MODES, AUTO), open=True)
    epochs: int = training(
        10, "epochs of gradient steps, each over all rows once, before the finish", "steps", open=True, unit="epochs"
    )
    tolerance: float = training(
        1e-6, "finish with full passes until the relative distance to the optimum is at most this; 0 for no finish",
        "stopping", blank="no finish",
    )
    finish_passes: int = training(
        5_000, "the most full passes of the finish", "stopping",
        unit="passes", step=100, when=lambda v: v["tolerance"] > 0, needs=(("tolerance", 1e-6),))
    max_seconds: float = training(
        0.0, "stop after so many seconds; 0 for no limit", "stopping", unit="s", step=10.0, blank="no limit"
    )
    patience: int = training(
        0, "stop after so many epochs without a better score on the test rows; 0: do not", "stopping",
        unit="epochs", blank="never", when=when.is_watched)
    batch_size: int = training(
        0, "rows of a shard in one step; 0 or 'auto': from the measured cost of messages", "steps",
        auto=0, open=True, unit="rows", step=64, blank="auto")
    local_steps: int = training(
        0, "mode local: steps of a shard between two averages; 0 or 'auto'", "steps",
        auto=0, open=True, unit="steps", blank="auto", when=when.may_step_alone, needs=(("mode", "local"),),
    )
    staleness: int = training(
        4, "mode ssp: how many updates old the weights behind a gradient may be", "steps",
        open=True, unit="updates", when=lambda v: v["mode"] == "ssp", needs=(("mode", "ssp"),))
    step_rule: str = training(
        "sgd", "sgd, momentum, adagrad, adam, adamw, or one of a plug-in", "steps",
        metavar="NAME", open=True, known=("sgd", "momentum", "adagrad", "adam", "adamw"), plugins="shoal.step_rules",
        when=lambda v: v["mode"] != "local", needs=(("mode", "sync"),),
    )
    learning_rate: float = training(
        0.0, "the learning rate; 0 or 'auto': from the curvature of the data", "steps",
        auto=0.0, open=True, step=0.01, blank="auto")
    schedule: str = training(
        "constant", "how the learning rate changes over the epochs", "steps", choices=SCHEDULES, open=True
    )
    warmup: float = training(
        0.0, "epochs over which the learning rate rises, from a tenth", "schedule",
        unit="epochs", step=0.5, blank="none")
    decay: float = training(
        0.5, "schedules step, exponential, inverse: share of the learning rate left after decay_every epochs", "steps",
        open=True, step=0.05, when=when.decays, needs=(("schedule", "exponential"),))
    decay_every: float = training(
        1.0, "the epochs after which that share is left", "steps",
        open=True, unit="epochs", step=0.5, when=when.decays, needs=(("schedule", "exponential"),))
    momentum: float = training(
        0.9, "of the step rule momentum, and the first moment of adam and adamw", "steps",
        open=True, step=0.01, when=when.has_momentum, needs=(("step_rule", "momentum"), ("mode", "sync")))
    weight_decay: float = training(
        0.01, "step rule adamw: share of each weight that a step takes away, times the learning rate", "steps",
        open=True, step=0.01, when=when.shrinks_weights, needs=(("step_rule", "adamw"), ("mode", "sync")),
    )
    clip: float = training(
        0.0, "gradients with a larger norm are scaled down to this; 0 for no limit", "schedule",
        step=1.0, blank="no limit", when=lambda v: v["mode"] != "local", needs=(("mode", "sync"),),
    )
    compression: str = training(
        "none", "how gradients are sent: in full, the largest values only, or in 16 bits", "steps",
        choices=COMPRESSIONS, open=True)
    top_k: float = training(
        0.1, "compression topk: share of the values that are sent", "steps",
        open=True, step=0.05, when=lambda v: v["compression"] == "topk", needs=(("compression", "topk"),),
    )
    prefetch: int = training(
        -1, "batches of a shard that are read ahead; -1 or 'auto': as memory allows", "feed",
        auto=-1, metavar="N|auto", unit="batches", blank="auto", spare=True,
    )
    io_queue_size: int = training(
        0, "the most batches of all shards that a worker has asked the disk for and not used yet; 0 or 'auto': those "
        "of prefetch", "feed", auto=0, metavar="N|auto", unit="batches", blank="auto", spare=True,
    )
    max_memory: float = training(
        0.8, "share of the memory that a run plans with, and above whose use nothing is read ahead", "feed",
        step=0.05, spare=True,
    )
    shards: int = training(
        0, "logical shards of the rows; 0 or 'auto': by the data's size", "feed", auto=0, unit="shards", blank="auto",
    )
    partition: str = training(
        "hash", "how rows are given to shards: at random, or in the order of the file", "feed",
        choices=checks.PARTITIONS,
    )
    parameter_shards: int = training(
        1, "processes that the parameters are spread over and stepped in; 1: the run's own process", "feed",
        unit="processes", when=when.steps_elsewhere, needs=(("engine", "processes"),))
    aggregation: str = training(
        "server", "networks in mode sync: who adds gradients up, the server, or workers among themselves (all-reduce)",
        "feed", choices=checks.AGGREGATIONS, when=when.may_reduce,
        needs=(("mode", "sync"), ("compression", "none"), ("model", when.NETWORK), ("engine", "processes")))
    precision: str = training("auto", "floating-point type of the gradients", "feed", choices=checks.PRECISIONS)
    mixed_precision: bool = training(
        False, "networks: compute layers in bfloat16; parameters, gradients and steps stay in their precision",
        "computing", when=when.has_module, needs=(("model", when.NETWORK),), spare=True,
    )
    gradient_checkpointing: bool = training(
        False, "networks: keep less of a batch in memory and compute it again; the bits are the same", "computing",
        when=when.has_module, needs=(("model", when.NETWORK),), spare=True,
    )
    compile_mode: str = training(
        "none", "networks: let PyTorch compile the module, in its mode of that name", "computing",
        choices=checks.COMPILE_MODES, when=when.has_module, needs=(("model", when.NETWORK),), spare=True,
    )
    device: str = training(
        "auto", "networks: where batches are computed; auto: on a GPU of CUDA if there is one", "computing",
        choices=checks.DEVICES, when=when.has_module, needs=(("model", when.NETWORK),), spare=True,
    )
    gpu_memory_fraction: float = training(
        0.0, "networks: share of the GPU's memory for all processes of the run; 0 for no limit", "computing",
        step=0.05, blank="no limit", when=when.has_module, needs=(("model", when.NETWORK),), spare=True,
    )
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
        5, "checkpoints that are kept as they are; older ones are thinned and archived", "safety", unit="checkpoints")
    checkpoint_strategy: str = training(
        "", "a plug-in that says when checkpoints are written and which are kept", "safety",
        metavar="NAME", known=("",), plugins="shoal.checkpoint_strategies", blank="by the two knobs above",
    )
    on_worker_loss: str = training(
        "retry", "a lost worker: replace it, go on with fewer, or stop", "safety",
        choices=checks.LOSS_CHOICES, when=when.has_processes)
    restarts: int = training(
        3, "times in a row that a worker is replaced before the run goes on without it", "safety",
        unit="times", when=lambda v: v["on_worker_loss"] == "retry" and when.has_processes(v),
    )
    retries: int = training(
        3, "times in a row that a run whose process was killed goes on by itself from its last checkpoint", "safety",
        unit="times", blank="never",
    )
    recovery: str = training(
        "", "a plug-in that decides what is done about a lost worker and about a run that failed", "safety",
        metavar="NAME", known=("",), plugins="shoal.recovery_handlers", blank="by the knobs above",
    )
    # fmt: on

    def __post_init__(self) -> None:
        checks.check_knobs(self)

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
    @functools.cache  # a page asks hundreds of times while it is drawn
    def knobs(cls) -> dict[str, dataclasses.Field[Any]]:
        """All knobs by their names; not to be changed."""
        return {knob_.name: knob_ for knob_ in dataclasses.fields(cls)}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and YAML."""
        values = ((name, getattr(self, name)) for name in self.knobs())
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}
