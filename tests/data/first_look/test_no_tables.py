"""What holds no table is refused in one plain message."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from shoal.errors import TrainingError
from support.data.plain import PLAIN
from support.tables import opened, shoal, written


def xlsx() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return out.getvalue()


BROKEN_GZIP = bytearray(gzip.compress(os.urandom(400_000), compresslevel=1))


BROKEN_GZIP[1000:1400] = bytes(400)


REFUSALS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "bom only": (codecs.BOM_UTF8, "empty"),
    "utf-16 bom only": (codecs.BOM_UTF16_LE, "empty"),
    "white space": (b" \n\t\n\r\n", "empty"),
    "comments only": (b"# a\n# b\n", ""),
    "gzip of nothing": (gzip.compress(b""), "empty"),
    "gzip cut short": (gzip.compress(PLAIN.encode() * 1000)[:-20], "could not be|damaged|end-of-stream"),
    "gzip with a broken middle": (bytes(BROKEN_GZIP), "could not be"),
    "gzip header only": (b"\x1f\x8b\x08\x00", "could not be"),
    "gzip followed by garbage": (gzip.compress(PLAIN.encode()) + b"garbage", "could not be"),
    "zip": (xlsx(), "another document of Office|not a whole Excel workbook"),
    "old excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "Excel workbook that is old"),
    "bzip2": (b"BZh91AY&SY" + bytes(60), "could not be"),
    "xz": (b"\xfd7zXZ\x00" + bytes(60), "could not be"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(60), "could not be"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n", "PDF"),
    "utf-32 without bom": (PLAIN.encode("utf-32-le"), "binary"),
    "zeros": (bytes(5000), "binary"),
    "parquet cut short": (b"PAR1" + bytes(40), "not a whole Parquet"),
    "parquet magic only": (b"PAR1", "not a whole Parquet"),
    "one line of two megabytes": (b"1," * (1 << 20), "at most 200,000 columns"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_no_table_is_refused_in_one_paragraph(name: str, tmp_path: Path) -> None:
    content, words = REFUSALS[name]
    path = written(tmp_path, content)
    if words:
        with pytest.raises(TrainingError, match=words):
            opened(path)
    answer = shoal("inspect", path)
    assert answer.is_plain(), answer.err
    assert not words or answer.code == 1


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes_are_refused(seed: int, tmp_path: Path) -> None:
    random_bytes = random.Random(seed).randbytes(200 if seed < 4 else 300_000)
    answer = shoal("inspect", written(tmp_path, random_bytes))
    assert answer.is_plain(), answer.err
    assert answer.code == 1
    assert "got a binary file" in answer.err
    assert "say its encoding" in answer.err


@pytest.mark.parametrize("encoding", ["iso2022_jp", "cp932", "gb18030", "big5", "cp866", "koi8_r", "cp1253", "cp437"])
def test_texts_of_any_encoding_are_never_taken_for_bytes(encoding: str, tmp_path: Path) -> None:
    words = {"cp866": "жёлтый дом", "koi8_r": "жёлтый дом", "cp1253": "κίτρινο", "cp437": "Straße déjà"}
    word = words.get(encoding, "東京日本")
    rows = "".join(f"{word}\x1f{i}\x1f{i * i}\n" for i in range(50))
    answer = shoal("inspect", written(tmp_path, f"a\x1fb\x1fc\n{rows}".encode(encoding)), "--delimiter", "\x1f")
    assert answer.code == 0, answer.err


def test_paths_that_are_no_readable_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "absent.csv", tmp_path / ("x" * 300), tmp_path / "pipe", tmp_path / "loop",
                 Path("/dev/null"), Path("/proc/self/mem")):  # fmt: skip
        answer = shoal("inspect", path)
        assert answer.code == 1, path
        assert answer.is_plain(), answer.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can become someone who may not read the file")
def test_file_without_permission(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    path.chmod(0o000)
    code = (
        f"import os, sys; import pathlib; from shoal.cli import app as cli; from shoal.tasks import train as runs;"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        f"sys.exit(cli.main(['inspect', {str(path)!r}]))"
    )
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder != Path("/tmp") and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("shoal: ")
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "name", ["new\nline.csv", "ünï 'quoted' \"x\".csv", "-dash.csv", "caf\udce9.csv", "y" * 240 + ".csv", "a%s{}.csv"]
)
def test_file_names_of_all_sorts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, PLAIN, name)
    monkeypatch.chdir(tmp_path)
    answer = shoal("inspect", "--json", "--", name)
    assert answer.code == 0, answer.err
    assert answer.json["rows"] == 4
    assert Path(answer.json["file"]).name == name
