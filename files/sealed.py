"""Small JSON documents of ours that carry a checksum over what they say; large files are in `checksums`.

Needs no NumPy: queued runs and the command line read them. What a document means is known to its owner.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile
from shoal.files.indented import indented
from shoal.utils import identity_of, write_atomically

CHECKSUM = "checksum"  # the last field of a document

Older = Callable[[dict[str, Any]], bool]


_A_CHECKSUM = re.compile("[0-9a-f]{8}")
_SEALED_END = re.compile(rb',?"checksum":"([0-9a-f]{8})"\}\Z')


def never_sealed(values: dict[str, Any]) -> bool:
    """Whether a document may be of a version that had no checksums: its last field is none under a damaged name."""
    last = next(reversed(values.values()), None)
    return not (isinstance(last, str) and _A_CHECKSUM.fullmatch(last))


def nobody(values: dict[str, Any]) -> bool:
    """No version of this document was ever written without a checksum."""
    return False


def write(path: Path, values: Mapping[str, Any], of: str = "", *, lines: bool = False) -> None:
    write_atomically(path, sealed(values, of, lines=lines))


def read(path: Path, of: str = "", older: Older = nobody) -> dict[str, Any]:
    """What a document says, without its checksum. DamagedFile if it is not what was written; OSError as usual.

    `of` is what it was written of, if that was said: a document in the place of another is damage too. One without a
    checksum passes only where `older` tells by something else, such as its version, that it never had one: the field
    itself may be what was damaged.
    """
    return proven(path.read_bytes(), str(path), of, older)


def sealed(values: Mapping[str, Any], of: str = "", *, lines: bool = False, ascii: bool = True) -> bytes:
    """The bytes of a document, its keys in their order, each value on a line of its own if told; ASCII unless told,
    since texts need not be valid UTF-8."""
    plain = {key: value for key, value in values.items() if key != CHECKSUM}
    text = _shortest(plain)
    checksum = _checksum(text.encode(), of)
    if ascii and not lines:  # what is summed is what is written: a table of very many columns is written out once
        return f'{text[:-1]}{"," * bool(plain)}"{CHECKSUM}":"{checksum}"}}'.encode()
    whole = {**plain, CHECKSUM: checksum}
    return (indented(whole, ascii) if lines else json.dumps(whole, ensure_ascii=ascii)).encode()


def proven(data: bytes, path: str, of: str = "", older: Older = nobody) -> dict[str, Any]:
    """As `read`, for bytes that were read already; `path` is what a person is told."""
    if (values := _as_written(data, of)) is not None:
        return values
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:  # also what is not UTF-8
        raise _damaged(path, "a JSON document", str(error)) from None
    if not isinstance(values, dict):
        raise _damaged(path, "a JSON object", type(values).__name__)
    told = values.pop(CHECKSUM, None)
    if told is None and older(values):
        return values
    found = _checksum(_shortest(values).encode(), of)
    if told != found:
        raise _damaged(path, f"checksum {found}", "none" if told is None else str(told)[:20])
    return values


def _as_written(data: bytes, of: str) -> dict[str, Any] | None:
    """What a document says that has the very bytes that were summed: it is not written out again to be proven."""
    end = _SEALED_END.search(data)
    if end is None:
        return None
    text = data[: end.start()] + b"}"
    if end[1].decode() != _checksum(text, of):
        return None
    values = json.loads(text)
    return values if isinstance(values, dict) else None


def _shortest(values: Mapping[str, Any]) -> str:
    """Written in the shortest way, so that spaces do not matter to its checksum."""
    return json.dumps(values, separators=(",", ":"))


def _checksum(text: bytes, of: str) -> str:
    return f"{zlib.crc32(text, zlib.crc32(of.encode('utf-8', 'surrogateescape'))):08x}"


def _damaged(path: str, expected: str, got: str) -> DamagedFile:
    return DamagedFile(f"'{path}' is damaged: expected {expected}, got {got}.", path=path, identity=identity_of(path))
