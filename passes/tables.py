"""Several files read into one data set: each part is a data set of its own in the cache, so that only new or changed
ones are read; what they have in common is agreed on first.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.data.block_reader import BlockReport
from shoal.data.cache import Cache, digest
from shoal.data.dataset import Manifest
from shoal.data.files import Source, file_format, read_sample
from shoal.data.kinds import Layout, Wanted
from shoal.data.parts.agreement import Agreement, PartHead, reconsidered
from shoal.data.parts.assembly import Assembly, combined_notes, either_orders, linked, prove, residues_kept
from shoal.data.parts.heads import TEXTS, is_empty
from shoal.errors import BadRowsError, ConfigError, DamagedFile, DataError, SourceChanged, TrainingError
from shoal.files.parts import absolute, is_several, left_out, parts_of
from shoal.passes.blocks import ReadRange, ReadRowGroup
from shoal.passes.ingest import FileReading, Ingest, Sweep, fold, repeated_notes
from shoal.settings.config import RunConfig
from shoal.settings.limits import cells_from_reading
from shoal.utils import Progress, silent
from shoal.words import listed

WORTH_KEEPING = 1 << 16  # bytes of a part from which on it is found faster than read


def reading_of(
    config: RunConfig, cache: Cache, sweep: Sweep, progress: Progress, wanted: Wanted | None = None
) -> FileReading:
    """One file, or several that are one table, as the config names them."""
    kind = TableReading if is_several(config.file) else FileReading
    return kind(config, cache, sweep, progress, wanted)


class TableReading(FileReading):
    """Several files, to be read as a config says; the data set has their rows in their order."""

    def __init__(
        self, config: RunConfig, cache: Cache, sweep: Sweep, progress: Progress, wanted: Wanted | None = None
    ) -> None:
        super().__init__(config, cache, sweep, progress, wanted)
        self.parts = [
            FileReading(dataclasses.replace(config, file=str(path)), cache, sweep, silent, wanted)
            for path in parts_of(config.file)
        ]
        self.notes: list[str] = []

    # -------------------------------------------------------------- what it is the answer to

    def identity(self) -> dict[str, Any]:
        return {"parts": [[str(part.path), *part.identity().values()] for part in self.parts]}

    def check_unchanged(self, identity: Mapping[str, Any]) -> None:
        now = TableReading(self.config, self.cache, self.sweep, silent).identity()["parts"]
        before = identity["parts"]
        if now != before:
            names = {Path(str(part[0])).name for part in before if part not in now}
            names |= {Path(str(part[0])).name for part in now if part not in before}
            raise SourceChanged(
                f"{listed(sorted(names), 5)} changed, came or went while the table was read. "
                "Wait until all files are complete, then try again."
            )

    def question(self) -> dict[str, Any]:
        asked = super().question()
        return {**asked, "path": absolute(self.config.file), "parts": self.config.parts}

    def part_question(self, part: FileReading, layout: Layout) -> dict[str, Any]:
        notations = {i: notation.example for i, notation in layout.notations.items()}
        told = [layout.names, layout.kinds, layout.styles, sorted(layout.fixed), notations, dict(layout.absent),
                dict(layout.written), dict(layout.others), layout.order, dict(layout.limits)]  # fmt: skip
        return {**part.question(), "layout": digest(told)}

    # -------------------------------------------------------------- reading

    def _ingest(self, directory: Path) -> tuple[Path, str]:
        heads = self._heads()
        readings = [self.parts[place] for place, _ in heads]
        known = [part.identity() for part in readings]
        agreement = Agreement(
            [head for _, head in heads], lambda part, marks, written: _look(readings[part], marks, written),
            self.config.parts, self.wanted.columns if self.wanted else None,
        )  # fmt: skip
        sources = agreement.sources()
        self.notes = [*agreement.notes, *self.notes]
        shop = _Workshop(self, directory, readings, known)
        while shop.read(sources):
            sources = reconsidered(agreement.heads, sources, shop.part, shop.strangers)
        table = directory / "table"
        table.mkdir()
        self.progress("putting the files together", 0.0)
        many = self.many(sources[0].layout.names)
        assembly = Assembly(shop.folders(), [part.path for part in readings], self.residues(sources[0]), many)
        notes = self._notes(assembly.parts, readings)
        key = assembly.write(table, absolute(self.config.file), notes, agreement.left_out)
        return table, key

    def _heads(self) -> list[tuple[int, PartHead]]:
        """Of every part that has anything in it, with its place among all."""
        found = []
        for place, part in enumerate(self.parts):
            self.progress("looking at the files", place / len(self.parts))
            with _naming(part):
                if (head := _head(part)) is not None:
                    found.append((place, head))
                else:
                    self.notes.append(f"{part.path.name}: The file is empty and adds no rows.")
        if not found:
            raise DataError("Expected files with a table, but all of them are empty. Choose others.")
        return found

    def residues(self, source: Source) -> int:
        return cells_from_reading(len(source.layout.numbers), self.config.test_every)

    def _notes(self, manifests: Sequence[Manifest], readings: Sequence[FileReading]) -> list[str]:
        """Of all parts; what only the whole table can tell is said of it as a whole."""
        said = []
        for manifest in manifests:
            generated = {*repeated_notes(manifest.repeated), *either_orders(manifest.columns)}
            said.append([note for note in manifest.notes if note not in generated])
        rest = left_out(self.config.file)
        beside = [f"Other files of the folder are left out: {listed(rest, 5)}."] if rest else []
        repeated = repeated_notes(sum(manifest.repeated for manifest in manifests))
        names = [part.path.name for part in readings]
        rowless = [name for name, manifest in zip(names, manifests, strict=True) if not manifest.rows]
        without = [f"{listed(rowless, 5)}: There are no rows below the header."] if rowless else []
        return [*self.notes, *without, *beside, *combined_notes(names, said, rowless), *repeated]


class _Workshop:
    """The data sets of the parts while they are made: found in the cache, or read in one sweep over all of them."""

    def __init__(
        self, table: TableReading, directory: Path, parts: Sequence[FileReading], known: Sequence[Mapping[str, Any]]
    ) -> None:
        self.table, self.directory, self.parts, self.known = table, directory, parts, known
        self.folder = directory / "parts"
        self.folder.mkdir()
        self.made: dict[int, Path] = {}
        self.plain: dict[int, Source] = {}  # where the text of packed parts is
        self.sizes: dict[int, int] = {}
        self.part, self.strangers, self.attempts = 0, list[int](), 0

    def folders(self) -> list[Path]:
        """The data set of each part, in this workshop, where nobody cleans up."""
        return [self.made[number] for number in range(len(self.parts))]

    def read(self, sources: Sequence[Source]) -> bool:
        """Whether a column was found to be of another kind, in `part`: then nothing is made yet."""
        self.made = {}
        for number, source in enumerate(sources):
            if (found := self._kept(number, source)) is not None:
                self.made[number] = found
            self.table.progress("looking for what is known", number / len(sources))
        self.attempts += 1
        todo = [number for number in range(len(sources)) if number not in self.made]
        if self._read(todo, sources):
            return True
        for number in todo:
            self._keep(number, sources[number])
        return False

    def _kept(self, number: int, source: Source) -> Path | None:
        cache, part = self.table.cache, self.parts[number]
        found = cache.find(self.table.part_question(part, source.layout), self.known[number])
        if found is None:
            return None
        place = self.folder / found.directory.name
        try:
            prove(found)
            return place if place.exists() else linked(found.directory, place)
        except DamagedFile as error:
            cache.discard(error)
            return None

    def _read(self, todo: Sequence[int], sources: Sequence[Source]) -> bool:
        asked: list[tuple[int, ReadRange | ReadRowGroup]] = []
        readings = {number: self._begin(number, sources[number]) for number in todo}
        for number in todo:
            asked += [(number, request) for request in readings[number].requests(self._folder(number))]
        reports: Iterator[BlockReport] = self.table.sweep([request for _, request in asked])
        for index, ((number, request), report) in enumerate(zip(asked, reports, strict=True)):
            with _naming(self.parts[number]):
                if strangers := fold(readings[number], request, report, self.table.sweep):
                    self.part, self.strangers = number, strangers
                    return True
            if index + 1 == len(asked) or asked[index + 1][0] != number:
                self._finish(number, readings.pop(number))
            self.table.progress("reading", (index + 1) / len(asked))
        for number in [*readings]:  # without a range: no text below the header
            self._finish(number, readings.pop(number))
        return False

    def _folder(self, number: int) -> Path:
        return self.directory / f"attempt{self.attempts}-{number}"

    def _begin(self, number: int, source: Source) -> Ingest:
        part = self.parts[number]
        with _naming(part):
            if number not in self.plain:
                place = self.directory / f"text-{number}"
                place.mkdir()
                self.plain[number] = part.readable(source, place)
            ready = dataclasses.replace(self.plain[number], layout=source.layout)
        self._folder(number).mkdir()
        numbers, residues = len(source.layout.numbers), self.table.residues(source)
        return Ingest(ready, residues_kept(numbers, residues, ready.size))

    def _finish(self, number: int, reading: Ingest) -> None:
        """Write what completes the part's data set; two parts of the same content are one."""
        self.sizes[number] = reading.source.size
        key = reading.finish(self._folder(number), str(self.parts[number].path))
        whole = self.folder / key
        if not whole.exists():
            self._folder(number).rename(whole)
        self.made[number] = whole

    def _keep(self, number: int, source: Source) -> None:
        """For the next time, if the file is still what was read."""
        part, folder, cache = self.parts[number], self.made[number], self.table.cache
        part.check_unchanged(self.known[number])
        if self.sizes[number] >= WORTH_KEEPING:
            cache.keep(linked(folder, self.directory / f"kept-{number}"), folder.name)
            cache.remember(self.table.part_question(part, source.layout), self.known[number], folder.name)


def _head(part: FileReading) -> PartHead | None:
    """None for a file without any text."""
    try:
        source = part.head()
    except DataError:
        if is_empty(part.path):
            return None
        raise
    is_text = file_format(part.path) in TEXTS
    return PartHead(part.path.name, source, is_text, lambda: read_sample(part.path)[0].isascii())


def _look(part: FileReading, marks: Mapping[str, Any], written: Mapping[str, str]) -> Source:
    if not written:
        return part.head(marks)
    names = part.head(marks).layout.names if part.wanted is None else part.wanted.columns
    wanted = Wanted(tuple(names), {**(part.wanted.written if part.wanted else {}), **written})
    return FileReading(part.config, part.cache, part.sweep, silent, wanted).head(marks)


@contextlib.contextmanager
def _naming(part: FileReading) -> Iterator[None]:
    """Errors about one of several files say which one."""
    name = part.path.name
    try:
        yield
    except ConfigError as error:
        raise ConfigError(_named(name, error), *error.remedies, knobs=error.knobs) from None
    except SourceChanged:
        raise
    except BadRowsError as error:
        raise BadRowsError(_named(name, error), *error.remedies) from None
    except DataError as error:
        raise DataError(_named(name, error), *error.remedies) from None


def _named(name: str, error: TrainingError) -> str:
    return error.message if f"'{name}'" in error.message else f"{name}: {error.message}"
