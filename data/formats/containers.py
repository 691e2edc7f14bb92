"""Packed files: what their first bytes say they are, and the text in them. What the text means is found elsewhere."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

from shoal.errors import DataError, ResourceError
from shoal.words import listed

MAGIC = {
    b"\x1f\x8b": "gzip",
    b"PAR1": "parquet",
    b"PK\x03\x04": "zip",
    b"\xd0\xcf\x11\xe0": "an Excel workbook that is old or has a password",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"%PDF": "a PDF document",
}
PACKED = ("gzip", "zip", "bzip2", "xz", "zstd")
TABLES, NO_TABLES = (
    (".csv", ".tsv"),
    {"", ".txt", ".md", ".pdf", ".html", ".json", ".xml", ".png", ".jpg", ".rtf", ".doc"},
)
FAULTS = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)


def kind_of(head: bytes) -> str:
    """csv, parquet, one of PACKED, or what else it is in words."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "csv")


def unpacked(raw: IO[bytes], kind: str, name: str) -> IO[bytes]:
    """The text in a file that is packed in a way of PACKED; reading it may raise one of FAULTS."""
    if kind == "gzip":
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if kind == "bzip2":
        return bz2.BZ2File(raw)
    if kind == "xz":
        return lzma.LZMAFile(raw)
    return _from_zip(raw, name) if kind == "zip" else _from_zstd(raw)


def _from_zip(raw: IO[bytes], name: str) -> IO[bytes]:
    """The one table in a zip archive."""
    archive = zipfile.ZipFile(raw)
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    if "mimetype" in names and "content.xml" in names:
        raise DataError("Expected a CSV, Excel or Parquet file, got an OpenDocument one. Save it as .xlsx or CSV.")
    if "[Content_Types].xml" in names:
        raise DataError("Expected a CSV, Excel or Parquet file, got another document of Office. Save its table as CSV.")
    tables = [inner for inner in names if not inner.startswith("__MACOSX/") and not Path(inner).name.startswith(".")]
    named = [inner for inner in tables if Path(inner).suffix.lower() in TABLES]
    others = {Path(inner).suffix.lower() for inner in tables if inner not in named}
    if len(named) == 1 and others <= NO_TABLES:
        tables = named  # what else is there says what the table is
    if len(tables) != 1:
        found = f"{len(tables)}: {listed(tables, 5)}" if tables else "none"
        raise DataError(f"Expected one file in the zip archive '{name}', got {found}. Unpack it and choose one.")
    inside: Any = archive.open(tables[0])
    if not inside.peek(8)[:8].startswith(tuple(MAGIC)):
        text: IO[bytes] = inside
        return text
    raise DataError(f"Expected a CSV file in the zip archive '{name}', got '{tables[0]}'. Unpack it and use that file.")


def _from_zstd(raw: IO[bytes]) -> IO[bytes]:
    try:
        import pyarrow
    except ImportError:
        raise ResourceError("Expected the package pyarrow, which unpacks zstd; it is not installed.") from None
    stream: Any = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd")
    return io.BufferedReader(_Arrow(stream))


class _Arrow(io.RawIOBase):
    """A stream of Arrow as Python's own kind of file."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        data = self.stream.read(len(target))
        target[: len(data)] = data
        return len(data)
