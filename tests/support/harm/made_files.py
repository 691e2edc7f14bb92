"""Sparse rows, PyTorch modules and files that jobs have made, to be harmed: what is asked of each kind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from shoal.data.recipes.sources import sources_of
from shoal.data.splits import Split
from shoal.fitting.reports import Trained
from shoal.home import jobs_directory, runs_directory
from shoal.runs import made_files
from shoal.runs.documents import write_json
from shoal.runs.folder import Run
from shoal.sparse import table as sparse_table
from shoal.tasks.train import train_gradient_with, train_with
from support.harm.place import FileKind, Place, Told

Parts = dict[str, str]
JOB = "0123456789abcdef01234567"
RUN = "20260101-000000-0000001"


# ------------------------------------------------------------------ sparse rows


def _sparse(place: Place) -> str:
    return _of_sparse(place, train_with)


def _sparse_steps(place: Place) -> str:
    return _of_sparse(
        place, train_gradient_with, solver="gradient", epochs=1, shards=3, batch_size=32, tolerance=0, test_every=5
    )


def _of_sparse(place: Place, train: Callable[..., Trained], **more: Any) -> str:
    file = place.folder / "rows.svm"
    if not file.exists():
        random = np.random.default_rng(3)
        rows = ((np.sort(random.choice(40, 5, replace=False)) + 1, random.normal(size=6)) for _ in range(800))
        lines = (f"{v[0]:.4f} {' '.join(f'{i}:{x:.4f}' for i, x in zip(at, v[1:], strict=True))}\n" for at, v in rows)
        file.write_text("".join(lines))
    before, sparse_table.BLOCK_BYTES = sparse_table.BLOCK_BYTES, 16_000
    try:
        with place.coordinator() as coordinator, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            knobs = {"file": str(file), "target": "label", "model": "ridge", "alpha": 0.1, **more}
            report = train(coordinator, place.config(**knobs)).report
    finally:
        sparse_table.BLOCK_BYTES = before
    return repr((report.coefficients, report.intercept, report.train))


# ------------------------------------------------------------------ how data sets and shards can be made again elsewhere


def _sources(place: Place) -> str:
    with place.coordinator() as coordinator:
        cache = coordinator.cache
        found = cache.mending(lambda: sources_of(coordinator.open(place.config())))
        return repr({name: asdict(source) for name, source in found.items()})


def _apart(place: Place) -> str:
    """Shards of machines that have no disk in common: what such machines are told."""
    told: list[Any] = []
    config = place.config(solver="gradient", epochs=1, shards=3, batch_size=128, precision="float64", tolerance=0)
    with place.coordinator() as coordinator:
        engine = coordinator.engine
        engine.__class__ = type("Apart", (engine.__class__,), {"maps": property(lambda self: False)})
        engine.brief = lambda name, request: told.append(request())  # type: ignore[method-assign]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what was made again is said
            report = train_gradient_with(coordinator, config).report
    known = [[part.parts.tolist() for part in one.shards] for one in told if hasattr(one, "shards")]
    return repr((report.coefficients, known[-1:]))


# ------------------------------------------------------------------ modules


def _module() -> Any:
    from support.gradient.nets import small

    return small()


def _with_modules(place: Place) -> None:
    from support.gradient.nets import rows, stored

    X, y = rows(300)
    found = stored(_module(), (X, y), test=rows(50, seed=6))
    (place.folder / "module").write_text(str(found))


def _rows_and_start(place: Place) -> Parts:
    """What a run of the module trains from and on."""
    from shoal.networks.live import loaded
    from shoal.networks.stored import read_module
    from shoal.training.objectives.array_shards import deal_arrays

    read_module.cache_clear()
    file = (place.folder / "module").read_text()
    stored = read_module(file)
    with place.coordinator() as coordinator:
        how: dict[str, Any] = {"shards": 2, "seed": 0, "partition": "hash"}
        shards = coordinator.cache.mending(lambda: deal_arrays(coordinator, stored.data, Split(), **how))
        dealt = [shards.open(shard)[0].tobytes() for shard in range(2)]
    return {"rows": repr(dealt), "start": repr(loaded(file, "float64").start.tobytes()), "said": repr(stored)}


def _trained(place: Place) -> None:
    from safetensors.torch import save_file

    _with_modules(place)
    for run in (Run(runs_directory() / RUN), Run(runs_directory() / RUN.replace("1", "2"))):
        run.directory.mkdir(parents=True)
        write_json(run.directory / "job.json", {"task": "train"})
        write_json(run.directory / "config.json", {"model": "module", "file": (place.folder / "module").read_text()})
        module = _module()
        module.shift += 1.0 if run.id == RUN else 2.0
        tensors = {name: one.clone() for name, one in module.state_dict().items()}
        save_file(tensors, run.directory / "module.safetensors")
        made_files.seal(run.directory, ["module.safetensors"])


def _learnt(place: Place) -> str:
    from shoal.api.module_runs import ModuleRun

    found = ModuleRun(Run(runs_directory() / RUN), _module()).module.state_dict()
    return repr({name: one.numpy().tobytes() for name, one in found.items()})


# ------------------------------------------------------------------ files of jobs


def _job_done(place: Place) -> None:
    for job in (JOB, JOB[::-1]):
        folder = jobs_directory() / "predict" / job
        folder.mkdir(parents=True)
        write_json(folder / "job.json", {"task": "predict"})
        write_json(folder / "config.json", place.config().as_dict())
        lines = "".join(f"{number},{number * 0.37 + len(job)}\n" for number in range(2000))
        (folder / "predictions.csv").write_text(f"row,prediction of {job}\n{lines}")
        made_files.seal(folder, ["predictions.csv"])
        write_json(folder / "result.json", {"rows": 2000})


def _handed_out(place: Place) -> str:
    made_files._whole.clear()
    folder = jobs_directory() / "predict" / JOB
    if found := made_files.damage(folder):
        return Told(found)  # by which a page makes it again
    return repr(made_files.handed_out(folder / "predictions.csv").read_bytes())


MADE_KINDS = (
    FileKind("blocks of sparse rows", "cache/sparse-*/rows-*.bin", _sparse),
    FileKind("manifest of sparse rows", "cache/sparse-*/manifest.json", _sparse),
    FileKind("shards of sparse rows", "cache/shards-*/[shc]*.bin", _sparse_steps),
    FileKind("manifest of shards of sparse rows", "cache/shards-*/manifest.json", _sparse_steps),
    FileKind("sources of a data set", "cache/*/sources.json", _sources),
    FileKind("how shards were dealt out", "cache/shards-*/dealt.npz", _apart),
    FileKind("PyTorch modules and their rows", "modules/*/*", _rows_and_start, made_again=False, make=_with_modules),
    FileKind("trained PyTorch modules", f"runs/{RUN}/[fm]*", _learnt, made_again=False, make=_trained),
    FileKind("files of jobs", f"jobs/predict/{JOB}/[fp]*", _handed_out, made_again=False, make=_job_done),
)
