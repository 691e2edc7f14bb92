"""The log of a run: log.jsonl for programs, log.txt for people; what is worth a line is decided by who writes it.

log.txt is also where the run process's own output goes, so that stray prints and the last words of a crash are in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


class RunLog:
    """Appends to a run's two logs; a log that cannot be written harms nobody."""

    def __init__(self, directory: Path) -> None:
        self._files: list[IO[str]] = []
        with contextlib.suppress(OSError):
            for name in ("log.jsonl", "log.txt"):
                path = directory / name
                torn = not _ends_with_newline(path)  # by a process that was killed as it wrote
                self._files.append(path.open("a", buffering=1, encoding="utf-8", errors="backslashreplace"))
                self._files[-1].write("\n" if torn else "")

    def write(self, level: str, text: str) -> None:
        """One line in each log; a text of several lines is indented in log.txt, so that lines begin with a time."""
        if len(self._files) != 2:
            return
        now = time.time()
        entry = json.dumps({"at": now, "level": level, "text": text})
        mark = "" if level == "info" else f"{level}: "
        plain = text.strip().replace("\n", "\n    ")
        with contextlib.suppress(OSError, ValueError):  # a full disk; closed
            self._files[0].write(entry + "\n")
            self._files[1].write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))} {mark}{plain}\n")

    __call__ = write

    def info(self, text: str) -> None:
        self.write("info", text)

    def warning(self, text: str) -> None:
        self.write("warning", text)

    def error(self, text: str, cause: BaseException | None = None) -> None:
        """The plain message first, then the trace of what caused it."""
        trace = "".join(traceback.format_exception(cause)) if cause else ""
        self.write("error", f"{text}\n{trace}" if trace else text)

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ends_with_newline(path: Path) -> bool:
    with path.open("ab+") as file:
        if not file.tell():
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_log(directory: Path) -> Iterator[dict[str, Any]]:
    """The entries of log.jsonl, oldest first; a line that was cut off by a crash is left out."""
    try:
        lines = (directory / "log.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            yield json.loads(line)
