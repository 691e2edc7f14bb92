"""Files that a run or a job has made beside its documents: models, predictions, exports, reports, trained modules.

What they have to be when they are read or handed out is kept in a document of the folder. Needs no NumPy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

from shoal.errors import DamagedFile
from shoal.results.model import is_by_hand
from shoal.runs.documents import read_json, write_json
from shoal.utils import identity_of

FILE, MODEL = "files.json", "model.json"
PIECE = 1 << 20
REMEMBERED = 1000  # files that a process knows to be whole
AT_A_GLANCE = 256 << 20  # bytes of a file that is proven whenever somebody looks at what made it

_whole: dict[str, tuple[tuple[int, ...], list[int]]] = {}


def seal(directory: Path, names: Iterable[str]) -> None:
    """Remember what these files of a folder are, once they are complete."""
    found = {name: _sums(directory / name) for name in sorted(names)}
    if found:
        write_json(directory / FILE, {"files": found})


def prove(path: Path) -> None:
    """DamagedFile if a file is not what was made, OSError if it is gone; those of older versions have no proof."""
    said = (read_json(path.parent / FILE) or {}).get("files", {})
    expected = said.get(path.name)
    if expected is None:
        return
    mark = identity_of(path)
    if _whole.get(str(path)) == (mark, expected):
        return
    found = _sums(path)
    if found != expected:
        raise DamagedFile(
            f"'{path.name}' is damaged: expected {expected[0]} bytes with checksum {expected[1]:08x}, got {found[0]} "
            f"with {found[1]:08x}.",
            path=str(path),
            identity=mark,
        )
    if len(_whole) >= REMEMBERED:
        _whole.clear()
    _whole[str(path)] = mark, expected


def prove_model(path: Path) -> Path:
    """A model file that is read or handed out. In the folder of a run it has to be the one that the run has made, which
    that of another run is not, whole as it may be; one that a person has edited says so."""
    if path.name != MODEL:
        return path
    try:
        prove(path)
    except DamagedFile as damage:
        if not is_by_hand(path):
            raise DamagedFile(
                f"'{path}' is not the model file that its run has made. {damage.message} Put it back, or train again.",
                path=str(path),
            ) from None
    except OSError:  # gone, which whoever reads it says
        pass
    return path


def damage(directory: Path) -> DamagedFile | None:
    """What is wrong with one of the files that were made; of very large ones only their size is compared."""
    try:
        said = (read_json(directory / FILE) or {}).get("files", {})
        for name, (size, _) in said.items():
            path = directory / name
            if path.stat().st_size <= AT_A_GLANCE or path.stat().st_size != size:
                prove(path)
    except DamagedFile as found:
        return found
    except OSError as error:
        return DamagedFile(f"Expected '{error.filename}', got: {error.strerror}.", path=str(error.filename))
    return None


def handed_out(path: Path) -> Path:
    """A file that is given to somebody, proven. One that is damaged is removed: whoever made it will make it again."""
    try:
        prove(path)
    except DamagedFile:
        path.unlink(missing_ok=True)
        raise
    return path


def _sums(path: Path) -> list[int]:
    """The size and the CRC-32 of a file."""
    size = total = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            size, total = size + len(piece), zlib.crc32(piece, total)
    return [size, total]
