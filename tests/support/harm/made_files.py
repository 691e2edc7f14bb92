"""Sparse rows, PyTorch modules and files that jobs have made, to be harmed: what is asked of each kind."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from shoal.data.recipes.sources import sources_of
from shoal.data.splits import Split
from shoal.errors import TrainingError
from shoal.files import packing
from shoal.fitting.model_file import load_model, save_model
from shoal.fitting.reports import Trained
from shoal.home import jobs_directory, runs_directory
from shoal.library import aliases, saved_models
from shoal.runs import made_files
from shoal.runs.documents import write_json
from shoal.runs.folder import Run
from shoal.settings.config import RunConfig
from shoal.sparse import table as sparse_table
from shoal.tasks.train import train_gradient_with, train_with
from shoal.worker import Worker
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


# ------------------------------------------------------------------ models of very many columns, and of limits


def _packed(place: Place) -> Parts:
    """Small ones, so that harm meets every part of them."""
    before, packing.FROM = packing.FROM, 1
    try:
        return _predicting(place, place.config(exclude=["town"]))
    finally:
        packing.FROM = before


def _packed_wide(place: Place) -> Parts:
    file = place.folder / "wide.svm"
    if not file.exists():
        random, width = np.random.default_rng(4), packing.FROM + 500  # some have one value, and are left out
        values = random.normal(size=(60, width // 50))
        at = [np.arange(row % 50, width, 50) + 1 for row in range(len(values))]
        rows = (" ".join(f"{i}:{x:.3f}" for i, x in zip(*pair, strict=True)) for pair in zip(at, values, strict=True))
        file.write_text("".join(f"{number % 7}.5 {row}\n" for number, row in enumerate(rows)))
    return _predicting(place, place.config(file=str(file), target="label"))


def _predicting(place: Place, config: RunConfig) -> Parts:
    """Two saved models, so that one can be in the place of the other."""
    names = ("one", "other")
    if not (place.home / "models").exists():
        for number, name in enumerate(names):
            run = Run(runs_directory() / RUN.replace("1", str(number + 3)))
            run.directory.mkdir(parents=True)
            with place.coordinator() as coordinator:
                fit = train_with(coordinator, replace(config, model="ridge", alpha=0.1 + number))
            save_model(run.model_path, fit.model)
            assert packing.PACKED in json.loads(run.model_path.read_bytes())
            saved_models.save_run(run, {}, name)
        for made in ("cache", "runs"):
            shutil.rmtree(place.home / made, ignore_errors=True)
    return {name: _predictor(name) for name in names}


def _predictor(name: str) -> str:
    try:
        found = load_model(aliases.model_path(name))
    except TrainingError as error:
        return Told(error)
    return repr((found.coef.tobytes(), found.intercept, found.encoding, found.file))


def _limits(place: Place) -> str:
    """A table with numbers of which only a limit is known, read as half of them."""
    file = place.folder / "limits.csv"
    if not file.exists():
        lines = place.table.read_text().splitlines()
        cells = [
            f"<0,{number % 9 + 1}" if number % 7 == 3 else f"{number % 11},{number % 10}" for number in range(1500)
        ]
        rows = [";".join([cell, *line.split(",")[1:]]) for cell, line in zip(cells, lines[1:], strict=True)]
        file.write_text("\n".join([lines[0].replace(",", ";"), *rows, ""]))
    config = place.config(file=str(file), limits=["a=half"], numeric=["a"], test_every=5)
    with place.coordinator() as coordinator:
        report = train_with(coordinator, config).report
    return repr((report.coefficients, report.intercept, report.train, report.test))


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


def _sent(place: Place) -> None:
    """A module that another machine sends, and what of it was kept here."""
    from shoal.networks.code import homes_of
    from shoal.networks.stored import read_module
    from shoal.networks.travelling import know_module

    with_modules = place.home.with_name("another machine")
    os.environ["SHOAL_HOME"] = str(with_modules)
    try:
        _with_modules(place)
        file = (place.folder / "module").read_text()
        stored = read_module(file)
        request = know_module(file, homes_of(stored.module, stored.loss))
        (place.folder / "request").write_bytes(pickle.dumps(request))
    finally:
        os.environ["SHOAL_HOME"] = str(place.home)
        read_module.cache_clear()
        shutil.rmtree(with_modules)
    _known(place)


def _known(place: Place) -> str:
    from shoal.networks.live import loaded
    from shoal.networks.stored import read_module

    read_module.cache_clear()
    request = pickle.loads((place.folder / "request").read_bytes())
    request.answer(Worker(0))
    return repr((read_module(request.file), loaded(request.file, "float64").start.tobytes()))


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
    FileKind("packed model files", "models/*/v1/model.json", _packed, made_again=False),
    FileKind(
        f"packed model files of {packing.FROM:,} columns", "models/*/v1/model.json", _packed_wide, made_again=False
    ),
    FileKind("data sets with limits among numbers", "cache/[0-9a-f]*/*.[bjn]*", _limits, spare=True),
    FileKind("blocks of sparse rows", "cache/sparse-*/rows-*.bin", _sparse),
    FileKind("manifest of sparse rows", "cache/sparse-*/manifest.json", _sparse),
    FileKind("shards of sparse rows", "cache/shards-*/[shc]*.bin", _sparse_steps),
    FileKind("manifest of shards of sparse rows", "cache/shards-*/manifest.json", _sparse_steps),
    FileKind("sources of a data set", "cache/*/sources.json", _sources),
    FileKind("how shards were dealt out", "cache/shards-*/dealt.npz", _apart),
    FileKind("PyTorch modules and their rows", "modules/*/*", _rows_and_start, made_again=False, make=_with_modules),
    FileKind("modules from another machine", "modules/*/*.*", _known, make=_sent, spare=True),
    FileKind("trained PyTorch modules", f"runs/{RUN}/[fm]*", _learnt, made_again=False, make=_trained),
    FileKind("files of jobs", f"jobs/predict/{JOB}/[fp]*", _handed_out, made_again=False, make=_job_done),
)
