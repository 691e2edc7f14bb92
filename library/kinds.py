"""The sorts of things that take disk under SHOAL_HOME, and the words for them; what there is, is in `inventory`."""

from __future__ import annotations

from collections import Counter

from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass


@dataclass(frozen=True)
class DiskKind:
    """One sort of thing on disk: what it is for, and what is lost with it."""

    name: str  # on the command line
    title: str
    purpose: str
    cost: str
    one: str  # of them, in a sentence
    many: str
    by_use: bool = False  # whether one can tell which of them no run or model refers to
    cleanable: bool = True


KINDS = {
    kind.name: kind
    for kind in (
        DiskKind(
            "data", "Data caches", "Tables as they were read, in binary, so that the next fit need not parse the file.",
            "Made anew from the file at the next fit or look.", "data cache", "data caches", by_use=True,
        ),
        DiskKind(
            "shards", "Training shards", "The rows of gradient runs, standardised and shuffled.",
            "Made anew when a gradient run needs them.", "set of shards", "sets of shards",
        ),
        DiskKind(
            "uploads", "Uploads", "Files that were uploaded in the browser.",
            "Gone for good: upload the file again to use it. Models that were made from it stay.",
            "upload", "uploads", by_use=True,
        ),
        DiskKind(
            "samples", "Samples", "Bundled and made-up tables that somebody has opened.",
            "Written anew when one is opened again.", "sample", "samples",
        ),
        DiskKind(
            "jobs", "Looks and predictions",
            "What was found in files, predictions, exports and reports, and the sums behind the Tune page.",
            "Done anew when somebody asks again; predictions must be asked for again.", "answer", "answers",
        ),
        DiskKind(
            "checkpoints", "Checkpoints", "Where gradient runs can be resumed and forked from.",
            "Runs that have ended keep their results, but can no longer be resumed or forked from where they were.",
            "run's checkpoints", "runs' checkpoints",
        ),
        DiskKind(
            "runs", "Runs", "Settings, log, curves, result and model of every run.",
            "Gone for good, with their checkpoints. Saved models stay.", "run", "runs",
        ),
        DiskKind(
            "searches", "Searches", "What was tried to find good settings, and what came of it.",
            "Gone for good; a search cannot be continued. Its trials stay among the runs, and saved models stay.",
            "search", "searches",
        ),
        DiskKind("archives", "Archives", "Runs that were packed away.", "Gone for good.", "archive", "archives"),
        DiskKind("models", "Models", "Saved models with their versions.",
             "Removed one by one on the Models page.", "model", "models", cleanable=False),
        DiskKind("fetched", "Fetched models", "Model files of the team's database that were needed on this machine.",
             "Fetched again when one is needed.", "fetched model", "fetched models"),
        DiskKind("networks", "Networks of Python",
             "Modules and rows that shoal.train_module was given.",
             "Their runs keep results and weights, but can no longer be resumed, forked or opened in Python, unless "
             "the same module and rows are trained again.", "module or table", "modules and tables", by_use=True),
        DiskKind("leftovers", "Leftovers", "What killed processes and broken uploads left behind.",
             "Nothing: nobody can use it.", "leftover", "leftovers"),
        DiskKind("other", "Everything else", "The queue, the index of caches, logs and folders themselves.",
             "Needed.", "file", "files", cleanable=False),
    )
}  # fmt: skip
CLEANABLE = tuple(kind.name for kind in KINDS.values() if kind.cleanable)


def kind_of(name: str) -> DiskKind:
    if name not in CLEANABLE:
        raise ConfigError(f"Expected one of {', '.join(CLEANABLE)} to clean up, got '{name}'. Choose one of them.")
    return KINDS[name]


# ------------------------------------------------------------------ words


def counted(kind: DiskKind, count: int) -> str:
    return f"{count:,} {kind.one if count == 1 else kind.many}"


def kept_in_words(kept: Counter[str]) -> str:
    """One sentence on what stays and why; empty if nothing does."""
    if not kept:
        return ""
    return "Kept: " + "; ".join(f"{count:,} {reason}" for reason, count in kept.most_common()) + "."
