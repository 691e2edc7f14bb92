"""What several test modules of the data pipeline need: reading a data set back, fits in this process, shared files."""

from __future__ import annotations

import contextlib
import io
import json
import math
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from shoal.cli import app as cli
from shoal.coordinator import Coordinator
from shoal.data import block_reader
from shoal.data.dataset import Dataset
from shoal.engines.inline import InlineEngine
from shoal.settings import limits
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.tasks.train import train
from shoal.utils import silent

SHARED = Path(__file__).parents[3] / "shared"
Cell = float | str | None


def shared(*parts: str) -> Path:
    """A file of ../shared, or a skipped test where that folder was not given."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"../shared is not here: {path} is missing")
    return path


def written(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def opened(path: Path, **knobs: Any) -> Dataset:
    """The data set of a file, read in this process into SHOAL_HOME."""
    from shoal.home import home

    with InlineEngine() as engine:
        return Coordinator(engine, home(), silent).open(config_from({"file": str(path), **knobs}))


def fitted(path: Path, target: str, **knobs: Any) -> dict[str, Any]:
    """What `train --json` prints, and the model file's contents."""
    trained = train(config_from({"file": str(path), "target": target, "engine": "inline", **knobs}))
    return {**trained.report.as_dict(), "contents": trained.model.as_dict()}


def column(dataset: Dataset, name: str) -> list[Cell]:
    """One column of all rows: numbers (None where missing) or texts."""
    found: list[Cell] = []
    info = dataset.columns[name]
    for block in dataset.blocks:
        if info.is_number:
            values = dataset.numbers(block)[:, info.slot].tolist()
            found += [None if math.isnan(value) else value for value in values]
        else:
            codes = dataset.codes(block, info.slot).tolist()
            found += [None if code < 0 else info.levels[code] for code in codes]
    return found


def bad_places(dataset: Dataset) -> set[int]:
    return {block.first + row for block in dataset.blocks for row in block.bad}


def table(dataset: Dataset) -> list[dict[str, Cell]]:
    """All rows that could be read, as dictionaries in the order of the file."""
    columns = {name: column(dataset, name) for name in dataset.columns}
    bad = bad_places(dataset)
    return [{name: values[i] for name, values in columns.items()} for i in range(dataset.rows) if i not in bad]


def numbers(dataset: Dataset, name: str) -> npt.NDArray[np.float64]:
    return np.array([math.nan if v is None else v for v in column(dataset, name)], np.float64)


def same_bits(a: Sequence[float] | npt.NDArray[np.float64], b: Sequence[float] | npt.NDArray[np.float64]) -> bool:
    left, right = (np.asarray(values, np.float64) for values in (a, b))
    return left.shape == right.shape and np.array_equal(left.view(np.uint64), right.view(np.uint64))


def files_of(dataset: Dataset) -> dict[str, bytes]:
    """What a data set says and holds, without what depends on where and by whom it was made."""
    manifest = json.loads((dataset.directory / "manifest.json").read_text())
    manifest.pop("source")
    blocks = {path.name: path.read_bytes() for path in sorted(dataset.directory.glob("block-*.bin"))}
    with np.load(dataset.directory / "levels.npz") as maps:
        levels = {name: maps[name].tobytes() for name in sorted(maps)}
    moments = b"".join(c.mean.tobytes() + c.scatter.tobytes() for c in dataset.cells)
    return {**blocks, **levels, "manifest": json.dumps(manifest, sort_keys=True).encode(), "moments": moments}


@contextlib.contextmanager
def small_pieces(monkeypatch: pytest.MonkeyPatch, block: int, overlap: int = 1) -> Iterator[None]:
    """Ranges of so few bytes that they cut rows, quoted newlines and line ends."""
    with monkeypatch.context() as patch:
        patch.setattr(limits, "BLOCK_BYTES", block)
        patch.setattr(block_reader, "OVERLAP", overlap)
        yield


@contextlib.contextmanager
def mounted(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of that size in `folder`, or a skipped test where none can be mounted."""
    folder.mkdir()
    size = ["-o", f"size={megabytes}m"]
    done = subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("a tiny file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Answer:
    """What the command line said: exit code, standard output, standard error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def is_plain(self) -> bool:
        """Success without complaint, or one paragraph on standard error; a traceback is neither."""
        if "Traceback" in self.err + self.out or "not foreseen" in self.err:
            return False
        return (self.code == 0) if not self.err else self.code == 1 and self.err.strip().count("\n") == 0


def shoal(*arguments: str | Path) -> Answer:
    """The command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())


def plain_config(**knobs: Any) -> RunConfig:
    return config_from(knobs)


Compare = Callable[[Mapping[str, Any]], None]

TIGHT: dict[str, Any] = {"tol": 1e-14, "max_iter": 1_000_000}


def rows(n: int = 80, p: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1) + 10
    return X, X @ np.where(np.arange(p) % 2, 0.0, 1.0) + 2 * rng.standard_normal(n)


def frame_of(X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)


def tuned(path: Path, *flags: str | Path) -> dict[str, Any]:
    answer = shoal("tune", path, "--target", "y", *flags, "--json")
    assert (answer.code, answer.err) == (0, "")
    found: dict[str, Any] = answer.json
    return found
