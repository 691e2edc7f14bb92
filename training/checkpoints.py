"""Checkpoints: snapshots of a run that survive kills, full disks and damaged files, and become fewer with age.

What does not belong here: what a snapshot means, its bytes (`snapshots`), and when one is due.

Folder:  step-000000001200.ckpt          the newest `keep`, as they are
         step-000000001200.ckpt-shard0-*.part  beside one whose parameters lie on several shards: what the shard had
         archive/step-000000000400.ckpt  older ones: packed if that helps, and the fewer the older
         .step-000000001300.ckpt-*.tmp   being written, or left behind by a process that was killed

Of the older ones, one is kept for each power of two of the distance to the newest: at most log2(steps) + 1 in all. It
is the oldest of its kind, because a newer one would be replaced before it could grow old; so the first always stays.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from shoal.errors import ConfigError, StateError
from shoal.tracing import spans
from shoal.training.checkpoint_files import (
    content,
    file_name,
    is_of_other_format,
    no_room,
    parts_in,
    remove_leftovers,
    signature,
    steps_in,
    write_whole,
)
from shoal.training.part_files import PARTS, composed
from shoal.training.snapshots import MAGIC, Damaged, OtherFormat, Snapshot, decode, encode
from shoal.utils import sync_folder
from shoal.words import listed

__all__ = ["MAGIC", "Checkpoints", "Damaged", "OtherFormat", "Snapshot", "decode", "encode", "spread"]

RUN = "run"  # in a snapshot's meta: whose it is


def to_stderr(text: str) -> None:
    print(f"shoal: {text}", file=sys.stderr)


class Checkpoints:
    """The checkpoints of one run, in one folder. One process saves; others may read at the same time.

    Where it is said whose they are (`of`), those of another run are not taken for its own, whole as they may be.
    """

    def __init__(
        self, directory: Path, keep: int = 5, warn: Callable[[str], None] = to_stderr, of: str = "",
        kept: Callable[[Sequence[int]], set[int] | None] = lambda steps: None,
    ) -> None:  # fmt: skip
        """`kept` may say which of these steps stay, as they are; None: the newest `keep`, and few older ones."""
        if keep < 1:
            raise ConfigError(f"Expected keep_checkpoints to be at least 1, got {keep}. Give a number such as 5.")
        self.directory, self.archive = directory, directory / "archive"
        self.keep, self.warn, self.of, self._kept = keep, warn, of, kept
        self._latest: tuple[int, bytearray] | None = None
        self._in_memory = True
        self._whole: dict[Path, tuple[int, ...]] = {}  # what files looked like when they were found to be whole
        for folder in (self.directory, self.archive):
            remove_leftovers(folder)

    # ---------------------------------------------------------------- save

    def save(self, snapshot: Snapshot) -> Path:
        """Write a snapshot; when this returns, it survives a loss of power. Then tidy up the older ones.

        It is the newest from now on: later steps, of a continuation that was given up, are removed.
        """
        if snapshot.step < 0:
            raise StateError(f"Expected a step of at least 0 to save, got {snapshot.step}.")
        with spans.span("checkpoint", step=snapshot.step):
            data = encode(replace(snapshot, meta={**snapshot.meta, RUN: self.of}) if self.of else snapshot)
            path = self.directory / file_name(snapshot.step)
            try:
                write_whole(path, data)
            except OSError as error:
                raise no_room(path, error) from error
        self._remember(path)
        self._latest = None if PARTS in snapshot.meta or not self._in_memory else (snapshot.step, data)
        self.forget_after(snapshot.step)
        self._thin()
        self._remove_parts({name for name, _ in snapshot.meta.get(PARTS, ())}, snapshot.step)
        return path

    def hold(self, in_memory: bool) -> None:
        """Whether the newest stays in memory as well, from the next one on; what is held goes where it does not."""
        self._in_memory = in_memory
        if not in_memory:
            self._latest = None

    def forget_after(self, step: int) -> None:
        """Remove what is later than a step, because the run goes on from there."""
        if self._latest is not None and self._latest[0] > step:
            self._latest = None
        for folder in (self.directory, self.archive):
            later = [other for other in steps_in(folder) if other > step]
            for other in later:
                self._remove(folder / file_name(other))
            with contextlib.suppress(OSError):
                if later:
                    sync_folder(folder)  # or they could be back after a loss of power

    def _thin(self) -> None:
        """Leave the newest `keep` as they are; pack or remove what is older. Or as somebody else says."""
        plain, packed = steps_in(self.directory), steps_in(self.archive)
        newest = max(plain)
        chosen = self._kept(sorted({*plain, *packed}))
        if chosen is not None:
            for folder, steps in ((self.directory, plain), (self.archive, packed)):
                for step in {*steps} - chosen - {newest}:
                    self._remove(folder / file_name(step))
            return
        older = sorted(plain)[: -self.keep]
        survivors = spread({*older, *packed} - (set(plain) - set(older)), newest)
        for step in older:
            if step in survivors and step not in packed and not self._pack(step):
                continue
            self._remove(self.directory / file_name(step))
        for step in packed:
            if step not in survivors:
                self._remove(self.archive / file_name(step))

    def _remove_parts(self, used: set[str], newest: int) -> None:
        """Those of checkpoints that were never finished, or are gone by now; `used` are the ones of the newest."""
        kept = set(steps_in(self.directory)) - {newest}
        for step, part in parts_in(self.directory):
            if step not in kept and part.name not in used:
                with contextlib.suppress(OSError):
                    part.unlink()

    def _pack(self, step: int) -> bool:
        """Copy a step to the archive; whether the plain file may go."""
        plain, packed = self.directory / file_name(step), self.archive / file_name(step)
        try:
            write_whole(packed, encode(self._read(plain, step), pack=True))
        except OtherFormat:
            return False
        except Damaged as damage:
            self.warn(f"The checkpoint '{plain}' {damage}. It was too old to be needed, and is removed.")
            return True
        except OSError as error:
            self.warn(
                f"The checkpoint '{plain}' could not be moved to the archive ({error.strerror}) and stays where it is. "
                "Free some space."
            )
            return False
        self._remember(packed)
        return True

    def _remove(self, path: Path) -> None:
        self._whole.pop(path, None)
        with contextlib.suppress(OSError):  # it is tried again after the next one
            if not is_of_other_format(path):
                path.unlink()

    # ---------------------------------------------------------------- load

    def newest(self) -> Snapshot | None:
        """The last snapshot that is whole: from memory, disk or archive; None if there is none.

        One of another format is not skipped: what comes after it would be done again, and be lost.
        """
        if self._latest is not None:
            return decode(self._latest[1])
        skipped: list[str] = []
        found = None
        for path, step in self._files():
            try:
                found = self._read(path, step)
            except FileNotFoundError:
                continue  # the process that saves has thinned it out meanwhile
            except OtherFormat as other:
                raise StateError(
                    f"The checkpoint '{path}' {other}. Nothing was changed. Go on with the Shoal that wrote it, or "
                    "move the file elsewhere to go on from the one before."
                ) from None
            except Damaged as damage:
                skipped.append(f"The checkpoint '{path}' {damage}.")
                continue
            self._remember(path)
            break
        instead = f"Step {found.step} is used instead." if found else "There is no other to use instead."
        for what in skipped:
            self.warn(f"{what} {instead}")
        return found

    def load(self, step: int) -> Snapshot:
        """The snapshot of one step."""
        if self._latest is not None and self._latest[0] == step:
            return decode(self._latest[1])
        problem = "is not there"
        for path, other in self._files():
            try:
                if other == step:
                    return self._read(path, step)
            except FileNotFoundError:
                continue
            except Damaged as damage:
                problem = f"cannot be used: '{path}' {damage}"
        choice = listed([str(other) for other in self.steps()]) or "none"
        raise StateError(f"The checkpoint of step {step} {problem}. Choose one of the others: {choice}.")

    def steps(self) -> list[int]:
        """All steps that can be loaded, in order; each file is read once and then again only if it was changed."""
        return sorted({step for path, step in self._files() if self._is_whole(path, step)})

    def _files(self) -> Iterator[tuple[Path, int]]:
        """All files that should be checkpoints, newest step first, plain before packed."""
        found = [(step, folder) for folder in (self.archive, self.directory) for step in steps_in(folder)]
        for step, folder in sorted(found, key=lambda item: (item[0], item[1] == self.directory), reverse=True):
            yield folder / file_name(step), step

    def _is_whole(self, path: Path, step: int) -> bool:
        try:
            if self._whole.get(path) != signature(path):
                self._read(path, step)
                self._remember(path)
        except (Damaged, OSError):
            return False
        return True

    def _read(self, path: Path, step: int) -> Snapshot:
        """The snapshot in a file, Damaged, or FileNotFoundError; those of older versions do not say whose they are."""
        try:
            snapshot = composed(decode(content(path)), path.parent)
        except Damaged:
            if not path.exists():  # thinned out meanwhile, and its parts after it
                raise FileNotFoundError(path) from None
            raise
        if snapshot.step != step:
            raise Damaged(f"holds step {snapshot.step}, not the one that its name says")
        whose = snapshot.meta.get(RUN, self.of)
        if self.of and whose != self.of:
            raise Damaged(f"is one of the run {whose}, not of {self.of}")
        return snapshot

    def _remember(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            self._whole[path] = signature(path)


def spread(steps: Iterable[int], newest: int) -> set[int]:
    """Those to keep: the oldest for each power of two of the distance to the newest."""
    oldest: dict[int, int] = {}
    for step in sorted(steps, reverse=True):
        oldest[(newest - step).bit_length()] = step
    return set(oldest.values())
