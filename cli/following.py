"""A run followed on the terminal: a few lines drawn anew, or plain lines where the output is no terminal.

What happens at the end, and what the exit code is, belongs to the commands.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.cli.printing import steer
from shoal.errors import ResourceError, StateError, TrainingError
from shoal.files.parts import title
from shoal.runs.commands import post
from shoal.runs.folder import ACTIVE
from shoal.runs.interruptions import goes_on
from shoal.runs.launch import Run
from shoal.runs.scheduling import keep_going
from shoal.words import short, tiny

if TYPE_CHECKING:
    from shoal.storage import Storage

DRAW = 0.2  # seconds between two pictures
SAY = 3.0  # seconds between two plain lines
BAR = 30  # characters


def describe(last: Mapping[str, Any], epochs: int | None) -> tuple[str, str]:
    """A round in words: how far; how good and how fast."""
    wanted = f" of {epochs:,}" if epochs is not None else ""
    wanted = " (full passes)" if last["phase"] == "finish" else wanted
    parts = [f"loss {short(last['loss'])}"]
    if last["distance"] is not None:
        parts.append(f"distance to optimum {tiny(last['distance'])}")
    if last["validation"] is not None:
        parts.append(f"validation {short(last['validation'])}")
    parts.append(f"{last['rows_per_second']:,.0f} rows/s")
    return f"epoch {last['epoch']:,.2f}{wanted}, round {last['round']:,}", "; ".join(parts)


class Screen:
    """Some lines on the terminal that replace one another."""

    def __init__(self) -> None:
        self._drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        width = shutil.get_terminal_size().columns - 1
        text = "".join(f"{_printable(line)[:width]}\n" for line in lines)
        if self._drawn:
            steer(f"\x1b[{self._drawn}F\x1b[J")
        sys.stderr.write(text)
        sys.stderr.flush()
        self._drawn = len(lines)

    def clear(self) -> None:
        if self._drawn:
            self.draw([])


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


class Follower:
    """Watches a run until it has ended; Ctrl-C stops the run, a second one leaves it to itself."""

    def __init__(self, run: Run, quiet: bool) -> None:
        self.run, self.quiet = run, quiet
        self.stopped = self._told = False  # whether Ctrl-C asked for its end, and whether the run was told so
        self._screen = Screen() if sys.stderr.isatty() and not quiet else None
        self._storage: Storage | None = None
        self._said, self._when = "", 0.0
        self._config = run.config

    def follow(self) -> bool:
        """Whether the run has ended; False if it was left to itself."""
        try:
            while True:
                try:
                    if self.stopped and not self._told:
                        self._tell()
                    self._watch()
                    return True
                except KeyboardInterrupt:
                    if self.stopped:
                        self._leave()
                        return False
                    self.stopped = True
        finally:
            if self._screen:
                self._screen.clear()
            if self._storage is not None:
                self._storage.close()

    def _watch(self) -> None:
        began = time.monotonic()
        while (state := self.run.state) in ACTIVE or (not self.stopped and goes_on(self.run)):
            if not self.quiet:
                self._show()
            if state not in ACTIVE or state == "queued":
                keep_going()
            # A long time in the queue is looked at less often: many may wait.
            time.sleep(min(1.0, max(DRAW, (time.monotonic() - began) / 20)) if state == "queued" else DRAW)
        if not self.run.directory.exists():
            raise StateError(f"The folder of the run {self.run.id} was removed, so the run ended. Start another.")

    def _tell(self) -> None:
        """Tell the run to stop, once."""
        self._told = True
        with contextlib.suppress(TrainingError):  # it ended meanwhile
            post(self.run, "stop", {})
        if not self._screen and not self.quiet:
            print("stopping; Ctrl-C again returns without waiting", file=sys.stderr, flush=True)

    def _leave(self) -> None:
        if self._screen:
            self._screen.clear()
        print(
            f"shoal: the run {self.run.id} goes on without this terminal; it may still be stopping. "
            f"See it with 'shoal show {self.run.id}', end it with 'shoal stop {self.run.id}'.",
            file=sys.stderr,
        )

    # ---------------------------------------------------------------- what is seen

    def _show(self) -> None:
        if self._screen:
            self._screen.draw(self._picture())
            return
        state, cause = self.run.state, self.run.cause
        text, last = f"{state}: {cause}" if cause else state, self._last_round()
        now = time.monotonic()
        if text != self._said:
            print(f"run {self.run.id} is {text}", file=sys.stderr, flush=True)
            self._said, self._when = text, now
        elif last and now - self._when >= SAY:
            print(
                "; ".join([*describe(last, self._config.get("epochs")), f"{last['workers']} workers"]),
                file=sys.stderr,
                flush=True,
            )
            self._when = now

    def _picture(self) -> list[str]:
        state, cause = self.run.state, self.run.cause
        word = "stopping; Ctrl-C again returns without waiting" if self.stopped else state
        file = title(self._config.get("file", ""))
        lines = [f"{self.run.id}  {word}" + (f": {cause}" if cause else "")]
        lines.append(f"{self._config.get('model')} model of {self._config.get('target')} in {file}")
        last = self._last_round()
        if not last:
            stage, fraction = self.run.progress
            return [*lines, f"[{_bar(fraction)}] {stage}"]
        epochs = self._config.get("epochs") or 1
        far, good = describe(last, epochs)
        lines += [f"[{_bar(last['epoch'] / epochs)}] {far}", good]
        return [*lines, *self._workers(), "Ctrl-C stops it"]

    def _last_round(self) -> dict[str, Any] | None:
        with contextlib.suppress(StateError, ResourceError):  # locked or away for a moment: the next picture has it
            last = self._store().last_round() if self.run.has_records else None
            return dataclasses.asdict(last) if last else None
        return None

    def _workers(self) -> list[str]:
        with contextlib.suppress(StateError, ResourceError):
            return [
                f"worker {w.rank}: {w.state}, cpu {w.cpu:.0%}, {w.memory / 2**20:.0f} MB, {w.rows:,} rows, "
                f"waits {w.wait:.0%}"
                for w in self._store().present_workers()
            ]
        return []

    def _store(self) -> Storage:
        if self._storage is None:
            self._storage = self.run.open_records()
        return self._storage


def _bar(fraction: float) -> str:
    filled = int(BAR * min(1.0, max(0.0, fraction)))
    return "#" * filled + "." * (BAR - filled)
