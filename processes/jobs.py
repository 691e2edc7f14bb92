"""What a detached process can do besides training: one function a task, from its config to the result that it leaves.

The dashboard may not touch data itself; it launches one of these (`runs.launch`) and reads the answer. The
arguments of a job are in `run.job`. Modules are imported by the job that needs them.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.errors import StateError
from shoal.runs import made_files
from shoal.runs.folder import Run
from shoal.settings.config import RunConfig
from shoal.utils import Progress

JobTask = Callable[[Run, RunConfig, Progress], dict[str, Any]]

OBJECTS = 50_000  # between two looks for garbage: what is known of very many columns is many objects, and none of it is
MADE = ("predictions.csv", "report.html", "export.*")  # files that jobs leave for people


def _model(run: Run) -> Path:
    return made_files.prove_model(Path(run.job["model"]))


def _inspect(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """What is in a file, with its first rows as they are written."""
    from shoal.tasks.previews import first_lines, table_preview
    from shoal.tasks.train import look

    gc.set_threshold(OBJECTS, 10, 10)
    found = look(config, progress)
    if found.sparse:
        return {**found.as_dict(), "preview": first_lines(config.file)}
    rows = table_preview(config.file, config.dialect, found.dialect, list(found.named))
    return {**found.as_dict(), "preview": rows}


def _predict(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Predictions of the model file `job["model"]` for the config's file, in predictions.csv of the job's folder; with
    the ends of intervals if `job["interval"]` is a level, beside the columns `job["keep"]`, and called yes from the
    probability `job["threshold"]` on."""
    from shoal.registry.drift import record
    from shoal.tasks.predict import predict_file
    from shoal.tasks.previews import first_part, first_rows, lines_as_rows

    out, interval = run.directory / "predictions.csv", run.job.get("interval")
    keep, threshold = run.job.get("keep") or (), run.job.get("threshold")
    found = predict_file(_model(run), config, out, progress, interval, keep, threshold, summed=True)
    record(_model(run), found.seen)
    read_in = {**config.dialect, "encoding": found.table.encoding}  # the model's, if that was told when it was trained
    shown = lines_as_rows(config) or first_rows(first_part(config.file), read_in)
    return {**found.as_dict(), "preview": shown}


def _diagnose(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """The model file `job["model"]` on the config's file: its own data (`job["own_data"]`), or another table."""
    from shoal.tasks.diagnose import diagnose

    return diagnose(_model(run), config, bool(run.job["own_data"]), progress).as_dict()


def _explain(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """What the numbers of the model file `job["model"]` are worth, from it and the rows that it was fitted to."""
    from shoal.tasks.explain import ExplainRequest, explain_model

    return explain_model(_model(run), ExplainRequest(), progress).as_dict()


def _study(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """What the config's table says to every what-if, for `job["folds"]` folds by `job["fold_by"]`, in the folder."""
    from shoal.fitting.summing import make_study
    from shoal.tasks.train import coordinated
    from shoal.whatif.folds import FoldChoice
    from shoal.whatif.study import save_study

    choice = FoldChoice.parse(int(run.job["folds"]), str(run.job["fold_by"]), config.seed)
    with coordinated(config, progress) as coordinator:
        study = coordinator.cache.mending(lambda: make_study(coordinator, coordinator.open(config), config, choice))
    save_study(run.directory, study)
    rows = sum(cell.n for cell in study.cells.cells)
    return {"rows": round(rows), "columns": study.cells.columns, "notes": [*study.notes, *coordinator.cache.repairs]}


def _curve(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """The whole path of a model in all folds, for `job["folds"]` folds by `job["fold_by"]`; what there is of it so far
    is in the folder, where folds go down together."""
    from shoal.runs.documents import write_so_far
    from shoal.tasks.tune import SoFar, TuningRequest, whole_curve

    mixes = "elasticnet" in (config.model, config.shrink)
    request = TuningRequest(int(run.job["folds"]), str(run.job["fold_by"]), config.l1_ratio if mixes else None)
    return whole_curve(config, request, progress, SoFar(functools.partial(write_so_far, run.directory)))


def _tune(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """What `shoal tune --json` says, for `job["folds"]` folds by `job["fold_by"]`."""
    from shoal.tasks.tune import TuningRequest, tuned_answer

    mixes = config.model == "elasticnet" or config.shrink == "elasticnet"
    request = TuningRequest(int(run.job["folds"]), str(run.job["fold_by"]), config.l1_ratio if mixes else None)
    return tuned_answer(config, request, progress)


def _generate(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """A made-up table of `job["rows"]` and `job["columns"]`, with its true coefficients."""
    from shoal.data.generated import Shape, generate

    return generate(Shape(run.job["rows"], run.job["columns"]), progress)


def _archive(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Put the runs `job["runs"]` into the archive."""
    from shoal.library.archives import archive_all

    return archive_all(run.job["runs"], progress)


def _restore(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Bring the runs `job["runs"]` back from the archive."""
    from shoal.library.archives import restore_all

    return restore_all(run.job["runs"], progress)


def _export(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """The model file `job["model"]` in every format, in the job's folder; each proven, or why it is not there."""
    from shoal.exports.bundle import export_all

    return export_all(_model(run), run.directory, progress)


def _report(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """The report of the model file `job["model"]`, in report.html of the job's folder."""
    from shoal.exports import report

    out = run.directory / "report.html"
    notes = report(_model(run), out, progress)
    return {"file": out.name, "bytes": out.stat().st_size, "notes": list(notes)}


def _compare(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """The model file `job["model"]` against `job["against"]` on the config's table; `job["labels"]` are their names."""
    from shoal.registry.comparing import compare

    first, second = run.job["labels"]
    against = made_files.prove_model(Path(run.job["against"]))
    return compare(against, _model(run), config, progress, (first, second)).as_dict()


def _promote(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Give the alias `job["alias"]` to the version `job["version"]` if it is not worse on the config's table by more
    than `job["not_worse_by"]`; `job["who"]` asks for it."""
    from shoal.library.aliases import resolve
    from shoal.people.jobs import for_asker
    from shoal.registry.promotion import promote

    by, who = float(run.job.get("not_worse_by") or 0.0), str(run.job.get("who") or "")
    with for_asker(run.job):
        return promote(resolve(run.job["version"]), run.job["alias"], config, by, who, progress).as_dict()


def _nodes(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """The machines of the cluster that the environment names."""
    from shoal.tasks.workers import cluster_nodes

    return cluster_nodes(config, progress)


def _plan(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """What the config's table would take on `job["nodes"]` nodes with the network `job["network"]` between them."""
    from shoal.tasks.plan import PlanRequest, plan

    return plan(config, PlanRequest(tuple(run.job["nodes"]), str(run.job["network"]), compressions=("none",)), progress)


JOBS: dict[str, JobTask] = {
    "inspect": _inspect, "predict": _predict, "diagnose": _diagnose, "study": _study, "curve": _curve,
    "generate": _generate, "archive": _archive, "restore": _restore, "export": _export, "report": _report,
    "nodes": _nodes, "tune": _tune, "plan": _plan, "compare": _compare, "promote": _promote,
    "explain": _explain,
}  # fmt: skip


def work(run: Run, config: RunConfig, progress: Progress) -> dict[str, Any]:
    job = JOBS.get(run.task)
    if job is None:
        raise StateError(f"Expected one of the tasks train, {', '.join(JOBS)}, got '{run.task}'. Start it anew.")
    answer = job(run, config, progress)
    made_files.seal(run.directory, [path.name for made in MADE for path in run.directory.glob(made)])
    return answer
