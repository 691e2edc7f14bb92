"""A module, its loss and its rows on disk, where every process of a run finds them; nothing in it is pickled.

    SHOAL_HOME/modules/KEY/NAME.module           what it is: a description, a loss, the shapes of rows; sealed
    SHOAL_HOME/modules/KEY/start.safetensors     its parameters and buffers before the first step
    SHOAL_HOME/modules/data-KEY/{X,y,test_X,test_y}.npy     rows, of as many modules as were trained on them

Both keys are fingerprints of what is inside: the same module on the same rows is stored once.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ConfigError, DamagedFile, DataError
from shoal.files import sealed
from shoal.files.elsewhere import sees
from shoal.home import make_folder, modules_directory, removed_path
from shoal.lazy.classes import dataclass
from shoal.utils import disk_errors

RowValues = npt.NDArray[Any]
RowPair = tuple[RowValues, RowValues]
START, ENDING = "start.safetensors", ".module"
CODE = "code"  # beside them on machines of a cluster: files of the classes
PIECE = 1 << 16  # rows that are looked at together
ANEW = "Call shoal.train_module again with the same module and rows, which stores them anew."
EXACT = ("uint8", "int32", "int64", "float32", "float64")  # types that rows are kept in


@dataclass(frozen=True)
class RowShape:
    """Of one row's values, and how a module is handed them: as whole numbers, or in its own precision."""

    shape: tuple[int, ...]
    whole: bool
    inputs: tuple[RowShape, ...] = ()  # of a module with several: how each is cut from the row, one after the other

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class StoredRows:
    """RowValues in a folder of their own; `dtype` is what holds both columns and targets without a loss."""

    key: str
    rows: int
    test_rows: int
    dtype: str

    @property
    def folder(self) -> Path:
        return modules_directory() / f"data-{self.key}"

    def prove(self) -> None:
        """Refuse rows that are not what was stored: their name is a fingerprint of them."""
        names = ("X", "y", *(("test_X", "test_y") if self.test_rows else ()))
        if _fingerprint({name: self.open(name) for name in names}) != self.key:
            raise DamagedFile(
                f"The rows in '{self.folder}' are damaged: expected the fingerprint {self.key}, got another. {ANEW}",
                path=str(self.folder),
            )

    def open(self, name: str) -> RowValues:
        """X or y, or those of the test rows, as they were given; mapped."""
        try:
            found: RowValues = np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except Exception as error:  # noqa: BLE001 - a damaged header makes NumPy stumble in many ways
            raise DataError(
                f"The rows that the module is trained on cannot be read: '{self.folder / name}.npy': {error}. {ANEW}"
            ) from None
        return found


@dataclass(frozen=True)
class StoredModule:
    """What the document of a module says."""

    name: str
    module: dict[str, Any]
    loss: dict[str, Any]
    loss_name: str
    score: str  # accuracy, yes, probability, r2 or loss: what is said of rows beside the loss
    precision: str  # of its parameters, as it was given
    parts: tuple[tuple[str, int], ...]  # those that are trained, in the order of the flat vector
    row: RowShape
    target: RowShape
    data: StoredRows

    @property
    def size(self) -> int:
        return sum(size for _, size in self.parts)


# ------------------------------------------------------------------ rows


def store_rows(
    X: RowValues, y: RowValues, test: RowPair | None = None, inputs: tuple[RowShape, ...] = ()
) -> tuple[StoredRows, RowShape, RowShape]:
    arrays = {"X": _kept(X, "X"), "y": _kept(y, "y")}
    if test is not None:
        arrays |= {"test_X": _kept(test[0], "X of the test rows"), "test_y": _kept(test[1], "y of the test rows")}
    _check_alike(arrays)
    whole = {name: arrays[name].dtype.kind in "iu" for name in ("X", "y")}
    row = RowShape(arrays["X"].shape[1:], whole["X"] and arrays["X"].dtype != np.uint8, inputs)
    target = RowShape(arrays["y"].shape[1:], whole["y"])
    count = len(arrays["test_X"]) if test is not None else 0
    stored = StoredRows(_fingerprint(arrays), len(arrays["X"]), count, _common(arrays))

    def write(folder: Path) -> None:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)

    _stored(stored.folder, write, stored.prove)
    return stored, row, target


def side_by_side(arrays: Sequence[RowValues]) -> tuple[RowValues, tuple[RowShape, ...]]:
    """Several inputs of a module as one array of rows, in a type that holds them all as they are."""
    kept = [_kept(values, f"input {number} of the module") for number, values in enumerate(arrays, 1)]
    flat = [values.reshape(len(values), -1) for values in kept]
    fits = all(np.array_equal(values.astype(np.float32).astype(values.dtype), values) for values in flat)
    joined = np.concatenate(flat, axis=1, dtype=np.float32 if fits else np.float64, casting="unsafe")
    for values, end in zip(flat, np.cumsum([values.shape[1] for values in flat]).tolist(), strict=True):
        if not np.array_equal(joined[:, end - values.shape[1] : end].astype(values.dtype), values):
            raise DataError(
                "Expected whole numbers up to 2^53 in a module's inputs, got larger ones. Number them anew."
            )
    shapes = (RowShape(values.shape[1:], values.dtype.kind in "iu" and values.dtype != np.uint8) for values in kept)
    return joined, tuple(shapes)


def _kept(values: Any, what: str) -> RowValues:
    """In a type that files have, without what no loss can be computed of."""
    array = np.asarray(values)
    if array.dtype == bool or array.dtype.kind == "u":
        array = array.astype(np.uint8 if array.dtype == bool or array.dtype.itemsize == 1 else np.int64)
    elif array.dtype.kind == "i":
        array = array.astype(np.int64 if array.dtype.itemsize == 8 else np.int32)
    elif array.dtype == np.float16:
        array = array.astype(np.float32)
    if array.dtype.name not in EXACT:
        raise DataError(f"Expected numbers as {what}, got {array.dtype}. Code texts as whole numbers first.")
    if array.ndim == 0 or not len(array):
        raise DataError(f"Expected rows as {what}, got none.")
    if array.dtype.kind == "f":
        for start in range(0, len(array), PIECE):
            if not np.isfinite(array[start : start + PIECE]).all():
                raise DataError(f"Expected finite numbers as {what}, got some that are missing or infinite. Fill them.")
    return np.ascontiguousarray(array)


def _check_alike(arrays: Mapping[str, RowValues]) -> None:
    for X, y in (("X", "y"), ("test_X", "test_y")):
        if X in arrays and len(arrays[X]) != len(arrays[y]):
            raise DataError(f"Expected as many targets as rows, got {len(arrays[y]):,} of {len(arrays[X]):,}.")
    for name in ("X", "y"):
        other = arrays.get(f"test_{name}")
        if other is not None and (other.shape[1:], other.dtype) != (arrays[name].shape[1:], arrays[name].dtype):
            raise DataError(
                f"Expected test rows like the others ({name} of shape {arrays[name].shape[1:]}, {arrays[name].dtype}), "
                f"got {other.shape[1:]}, {other.dtype}."
            )


def _common(arrays: Mapping[str, RowValues]) -> str:
    """One type for columns and targets: that of X if it holds the targets as they are, else one that holds both."""
    targets = [arrays[name] for name in ("y", "test_y") if name in arrays]
    kinds = [arrays["X"].dtype.name, "float32", "float64"]
    for kind in kinds:
        fits = np.can_cast(arrays["X"].dtype, kind, "safe")
        if fits and all(np.array_equal(y.astype(kind).astype(y.dtype), y) for y in targets):
            return kind
    return "float64"


def _fingerprint(arrays: Mapping[str, RowValues]) -> str:
    found = blake2b(digest_size=12)
    for name, array in arrays.items():
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


# ------------------------------------------------------------------ modules


def store_module(found: StoredModule, start: bytes) -> Path:
    """The document of a module, made unless it is there; `start` are its tensors."""
    values = asdict(found)
    for shape in (values["row"], values["target"]):
        if not shape["inputs"]:
            del shape["inputs"]  # as documents were before there were any: their names stay
    key = _key(values, start)
    folder = modules_directory() / key
    name = f"{found.name}{ENDING}"

    def write(target: Path) -> None:
        (target / START).write_bytes(start)
        sealed.write(target / name, values, of=key)

    _stored(folder, write, lambda: _prove(folder / name))
    return folder / name


def _key(values: Mapping[str, Any], start: bytes) -> str:
    said = json.dumps(json.loads(sealed.sealed(values)))  # with the spaces that older documents have: names stay
    return blake2b(said.encode() + start, digest_size=12).hexdigest()


def _prove(document: Path) -> None:
    _values(document)
    start_of(str(document))


def module_folder(file: str) -> Path:
    """Where the module of a document is or, on another machine that does not see it, would be."""
    folder = Path(file).parent
    return folder if sees(folder) else modules_directory() / folder.name


def start_of(file: str) -> bytes:
    """The tensors that a module begins with, as they were stored."""
    path = module_folder(file) / Path(file).name
    try:
        start = path.with_name(START).read_bytes()
    except OSError as error:
        raise DataError(f"Expected what a module begins with at '{path.with_name(START)}', got: {error.strerror}. "
                        f"{ANEW}") from None  # fmt: skip
    if _key(_values(path), start) != path.parent.name:
        raise DamagedFile(
            f"'{path.with_name(START)}' is damaged: expected the fingerprint {path.parent.name}, got another one. "
            f"{ANEW}",
            path=str(path.with_name(START)),
        )
    return start


def _values(path: Path) -> dict[str, Any]:
    try:
        return sealed.read(path, of=path.parent.name)
    except OSError as error:
        raise DataError(f"Expected the module of this run at '{path}', got: {error.strerror}. {ANEW}") from None
    except DamagedFile as error:
        raise DamagedFile(f"{error.message} {ANEW}", path=error.path, identity=error.identity) from None


@functools.lru_cache(8)
def read_module(file: str) -> StoredModule:
    path = Path(file)
    if path.suffix != ENDING:
        raise ConfigError(
            f"Expected a module that shoal.train_module has stored, got '{path.name}'. "
            "Train modules in Python: shoal.train_module(module, (X, y)).",
            knobs=["model"],
        )
    values = _values(module_folder(file) / path.name)
    shapes = {name: _row_shape(values[name]) for name in ("row", "target")}
    parts = tuple((name, size) for name, size in values["parts"])
    return StoredModule(**{**values, **shapes, "parts": parts, "data": StoredRows(**values["data"])})


def _row_shape(said: Mapping[str, Any]) -> RowShape:
    return RowShape(tuple(said["shape"]), said["whole"], tuple(map(_row_shape, said.get("inputs", ()))))


def _stored(folder: Path, write: Callable[[Path], None], prove: Callable[[], None]) -> None:
    """Make a folder as a whole, unless it is there as it was made."""
    if folder.exists():
        try:
            prove()
            os.utime(folder)  # in use again: whoever cleans up lets it be
            return
        except (DamagedFile, DataError, FileNotFoundError):
            _take_away(folder)
    with disk_errors("a module and its rows"):
        make_folder(folder.parent)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
        try:
            write(making)
            os.rename(making, folder)
        except OSError:
            if not folder.exists():  # by somebody else a moment ago
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)


def _take_away(folder: Path) -> None:
    """Runs that have mapped it keep what they have."""
    aside = removed_path()
    with contextlib.suppress(FileNotFoundError):  # by somebody else a moment ago
        os.rename(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)
