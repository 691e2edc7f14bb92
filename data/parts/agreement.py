"""One layout for the files of a table: columns matched by name, and what differs named; nothing is read here.

Files agree if they have the same columns, in any order, written in the same way. What a file leaves open (a column
without a value, whole numbers where others have decimal marks, dates that could be read in two orders) is settled by
the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from shoal.data.dialects import Dialect
from shoal.data.files import Source
from shoal.data.kinds import Layout
from shoal.data.notation.numbers import Notation
from shoal.data.notation.styles import rewritten
from shoal.errors import DataError, Remedy
from shoal.kernels.csv_kernel import FieldKind
from shoal.lazy.classes import dataclass
from shoal.words import listed

MARKS = {
    "encoding": "encoding", "delimiter": "delimiter", "quote": "quote", "escape": "escape character",
    "decimal": "decimal mark", "thousands": "mark between groups of digits", "comment": "mark of comments",
}  # fmt: skip
NUMBERS = (FieldKind.NUMBER, FieldKind.MARKED)
MORE = {"alike": {"columns": "common", "marks": "mixed"}, "common": {"marks": "any"}, "mixed": {"columns": "any"}}


class LookAgain(Protocol):
    """The first bytes of a part looked at once more, with some of its dialect and how its numbers are written given."""

    def __call__(self, part: int, marks: Mapping[str, Any], written: Mapping[str, str]) -> Source: ...


@dataclass(frozen=True)
class PartHead:
    """What the first bytes of one file tell."""

    name: str
    source: Source
    is_text: bool  # as opposed to files that declare their columns, and whose dialect says nothing
    is_ascii: Callable[[], bool]  # whether any encoding would do

    @property
    def layout(self) -> Layout:
        return self.source.layout

    @property
    def names(self) -> tuple[str, ...]:
        """Those of its columns, without any at the end that have neither a name nor a value."""
        kept = len(self.layout.names)
        while self.layout.kinds[kept - 1 : kept] == (FieldKind.SKIP,) and kept - 1 in self.layout.unseen:
            kept -= 1
        return self.layout.names[:kept]

    def place(self, column: str) -> int:
        return self.layout.names.index(column)

    def has_seen(self, column: str) -> bool:
        return column in self.layout.names and self.place(column) not in self.layout.unseen


@dataclass
class Agreement:
    """The parts of one table, and what they may differ in: `allowed` is common, mixed, any or alike (nothing)."""

    heads: list[PartHead]
    again: LookAgain
    allowed: str = "alike"
    only: Sequence[str] | None = None  # columns that are wanted; others may be there or not
    left_out: dict[str, str] = field(default_factory=dict)  # columns, and which files do not have them

    def sources(self) -> list[Source]:
        """Every part's source with the layout of the table."""
        self._agree_on_header()
        if self.allowed not in ("mixed", "any"):
            self._agree_on_marks()
        columns = self._columns()
        kinds = {column: self._kind(column) for column in columns}
        return [self._source(head, columns, kinds) for head in self.heads]

    @property
    def first(self) -> PartHead:
        """The one that others are compared with: the first that has values."""
        return next((h for h in self.heads if len(h.layout.unseen) < len(h.layout.names)), self.heads[0])

    def _replace(self, part: int, source: Source) -> None:
        self.heads[part] = replace(self.heads[part], source=source)

    # -------------------------------------------------------------- names of columns

    def _agree_on_header(self) -> None:
        """A file whose first row may be either is read as the others are; one without a row of names is refused."""
        texts = [head for head in self.heads if head.is_text]
        if len({head.source.dialect.header for head in texts}) < 2:
            return
        named = next(head for head in texts if head.source.dialect.header)
        for part, head in enumerate(self.heads):
            if not head.is_text or head.source.dialect.header:
                continue
            tried = self.again(part, {"header": True}, {})
            if set(tried.layout.names) != set(named.layout.names):
                raise DataError(
                    f"'{head.name}' has no row with the names of the columns, which '{named.name}' has. Put the same "
                    "header on every file, or on none."
                )
            self._replace(part, tried)

    def _columns(self) -> list[str]:
        """The table's, in the order of the first part."""
        first = self.first
        if self.only is not None:
            wanted = [name for name in first.layout.names if name in self.only]
            for head in self.heads:
                self._refuse_missing(head, first, [name for name in wanted if name not in head.layout.names])
            return wanted
        if self.allowed in ("common", "any"):
            return self._common()
        for head in self.heads:
            self._refuse_missing(head, first, [n for n in first.names if n not in head.names])
            self._refuse_extra(head, first, [n for n in head.names if n not in first.names])
        return list(first.names)

    def _common(self) -> list[str]:
        names = {head.name: set(head.names) for head in self.heads}
        common = [name for name in self.first.names if all(name in own for own in names.values())]
        if not common:
            raise DataError("Expected files with columns of the same name, but none is in all of them. Choose others.")
        for column in sorted(set().union(*names.values()) - set(common)):
            self.left_out[column] = _lacking(
                [name for name, own in names.items() if column in own],
                [name for name, own in names.items() if column not in own],
            )
        return common

    @property
    def notes(self) -> list[str]:
        """Of the columns that are left out; those that are for one reason in one sentence."""
        alike: dict[str, list[str]] = {}
        for column, why in self.left_out.items():
            alike.setdefault(why, []).append(f"'{column}'")
        return [
            f"{columns[0]} is left out: {why}." if len(columns) == 1
            else f"{listed(columns, 8)} are left out: {why.removesuffix('it')}them."
            for why, columns in alike.items()
        ]  # fmt: skip

    def _refuse_missing(self, head: PartHead, first: PartHead, missing: Sequence[str]) -> None:
        if missing:
            extra = [name for name in head.names if name not in first.names]
            instead = f" (it has {_quoted(extra)} instead)" if extra else ""
            raise DataError(
                f"'{head.name}' has no column {_quoted(missing)}, which '{first.name}' has{instead}. "
                "Add or rename it there, or leave that file out.", *self._more("columns", COLUMNS_ALLOWED),
            )  # fmt: skip

    def _refuse_extra(self, head: PartHead, first: PartHead, extra: Sequence[str]) -> None:
        if extra:
            raise DataError(
                f"'{head.name}' has a column {_quoted(extra)}, which '{first.name}' does not have. "
                "Remove it there, or leave that file out.", *self._more("columns", COLUMNS_ALLOWED),
            )  # fmt: skip

    def _more(self, what: str, advice: str) -> list[Remedy]:
        allowed = MORE.get(self.allowed, {}).get(what)
        return [Remedy.set(advice, "parts", allowed)] if allowed else []

    # -------------------------------------------------------------- dialects

    def _agree_on_marks(self) -> None:
        """One dialect that all texts can be read in, of those that they seem to have."""
        texts = [part for part, head in enumerate(self.heads) if head.is_text]
        found = Counter(_marks(self.heads[part].source.dialect) for part in texts)
        if len(found) < 2:
            return
        for marks, _ in found.most_common():
            tried = {part: self._read_with(part, dict(zip(MARKS, marks, strict=True))) for part in texts}
            if all(tried.values()):
                for part, source in tried.items():
                    if source is not None:
                        self._replace(part, source)
                return
        first = self.first if self.first.is_text else self.heads[texts[0]]
        usual = _marks(first.source.dialect)
        other = next(self.heads[p] for p in texts if not self._read_with(p, dict(zip(MARKS, usual, strict=True))))
        raise DataError(
            f"'{other.name}' is written in another way than '{first.name}': {_differences(other, first)}. "
            "Write it in the same way, or leave it out.", *self._more("marks", MARKS_ALLOWED),
        )  # fmt: skip

    def _read_with(self, part: int, marks: Mapping[str, str]) -> Source | None:
        """The part read with these marks, if it has the same columns then, with values of the same kinds."""
        head = self.heads[part]
        own = head.source.dialect
        other = {name: mark for name, mark in marks.items() if mark != getattr(own, name)}
        if not other:
            return head.source
        if "encoding" in other and not head.is_ascii():
            return None
        try:
            tried = self.again(part, other, {})
        except DataError:
            return None
        then, now = head.layout, tried.layout
        same = (then.names, then.kinds, then.notations) == (now.names, now.kinds, now.notations)
        return tried if same else None

    # -------------------------------------------------------------- kinds

    def _kind(self, column: str) -> ColumnKind:
        """What a column holds in all parts."""
        knowing = [part for part, head in enumerate(self.heads) if head.has_seen(column)]
        if not knowing:
            head = self.first
            return ColumnKind.of(head.layout, head.place(column))
        kinds = {part: ColumnKind.of(self.heads[part].layout, self.heads[part].place(column)) for part in knowing}
        first, usual = knowing[0], kinds[knowing[0]]
        for part, kind in kinds.items():
            if kind.sort != usual.sort:
                self._refuse_kind(column, self.heads[first].name, usual, self.heads[part].name, kind)
        if usual.sort == "dates":
            return self._dates(column, kinds)
        return self._numbers(column, kinds) if usual.sort == "numbers" else usual

    def _refuse_kind(self, column: str, first: str, usual: ColumnKind, name: str, kind: ColumnKind) -> None:
        raise DataError(
            f"Column '{column}' holds {usual.sort} in '{first}', but {kind.sort} in '{name}'. "
            "Correct that file or leave it out.",
            Remedy.set("Or read the column as names in all files", "categorical", column),
        )

    def _dates(self, column: str, kinds: Mapping[int, ColumnKind]) -> ColumnKind:
        """The order in which all parts can be read, by those that tell it."""
        fitting = [{kind.style, *kind.others} for kind in kinds.values()]
        styles = set.intersection(*fitting)
        told = next((kind for kind in kinds.values() if not kind.others), None)
        usual = next(iter(kinds.values()))
        if not styles:
            if self.allowed in ("mixed", "any"):
                return replace(usual, own=True)
            first, other = (
                next(iter(kinds)),
                next(p for p, k in kinds.items() if usual.style not in (k.style, *k.others)),
            )
            raise DataError(
                f"Column '{column}' has dates such as {usual.written} in '{self.heads[first].name}', but such as "
                f"{kinds[other].written} in '{self.heads[other].name}'. Write them in the same way.",
                *self._more("marks", MARKS_ALLOWED),
            )
        style = told.style if told else usual.style if usual.style in styles else min(styles)
        others = () if told else tuple(other for other in usual.others if other in styles and other != style)
        return replace(usual, style=style, others=others, written=rewritten(usual.written, style))

    def _numbers(self, column: str, kinds: Mapping[int, ColumnKind]) -> ColumnKind:
        """The notation in which the numbers of all parts can be read."""
        notations = Counter(kind.notation for kind in kinds.values())
        usual = next(iter(kinds.values()))
        if len(notations) < 2:
            return usual
        if self.allowed in ("mixed", "any"):
            return replace(usual, own=True)
        for notation, _ in notations.most_common():
            if notation is None:
                continue
            written = {column: notation.example}
            others = {part: self.again(part, {}, written) for part, k in kinds.items() if k.notation != notation}
            read = [ColumnKind.of(source.layout, source.layout.names.index(column)) for source in others.values()]
            if all(kind.notation == notation for kind in read):
                return next(kind for kind in kinds.values() if kind.notation == notation)
        first = next(iter(kinds))
        other = next(part for part, kind in kinds.items() if kind.notation != usual.notation)
        raise DataError(
            f"Column '{column}' has {usual.look} in '{self.heads[first].name}', but {kinds[other].look} in "
            f"'{self.heads[other].name}'. Write them in the same way.", *self._more("marks", MARKS_ALLOWED),
        )  # fmt: skip

    # -------------------------------------------------------------- layouts

    def _source(self, head: PartHead, columns: Sequence[str], agreed: Mapping[str, ColumnKind]) -> Source:
        layout = head.layout
        places = {column: head.place(column) for column in columns}
        kinds, styles = [FieldKind.SKIP] * len(layout.names), [0] * len(layout.names)
        notations, written, others = {}, {}, {}
        for column, place in places.items():
            own = ColumnKind.of(layout, place)
            kind = own if place not in layout.unseen and agreed[column].own else agreed[column]
            kinds[place], styles[place] = kind.kind, kind.style
            if kind.notation is not None:
                notations[place] = kind.notation
            if kind.written:
                written[place] = kind.written
            if kind.others:
                others[place] = kind.others
        rest = [place for place in range(len(layout.names)) if place not in set(places.values())]
        order = (*places.values(), *rest)
        agreed_layout = replace(
            layout, kinds=tuple(kinds), styles=tuple(styles), notations=notations, written=written, others=others,
            absent={place: texts for place, texts in layout.absent.items() if kinds[place] != FieldKind.SKIP},
            order=() if order == tuple(range(len(order))) else order,
        )  # fmt: skip
        return replace(head.source, layout=agreed_layout)


COLUMNS_ALLOWED = "Or use only the columns that all files have"
MARKS_ALLOWED = "Or let each file be read in its own way"


@dataclass(frozen=True)
class ColumnKind:
    """How one column is read; `own`: in each part as that part has it."""

    kind: FieldKind
    style: int = 0
    notation: Notation | None = None
    written: str = ""
    others: tuple[int, ...] = ()
    own: bool = False

    @classmethod
    def of(cls, layout: Layout, place: int) -> ColumnKind:
        return cls(
            layout.kinds[place], layout.styles[place], layout.notations.get(place), layout.written.get(place, ""),
            layout.others.get(place, ()),
        )  # fmt: skip

    @property
    def sort(self) -> str:
        if self.kind in NUMBERS:
            return "numbers"
        return {FieldKind.DATE: "dates", FieldKind.LEVEL: "texts"}.get(self.kind, "what cannot be used")

    @property
    def look(self) -> str:
        return f"numbers such as {self.notation.example}" if self.notation else "plain numbers"


def reconsidered(
    heads: Sequence[PartHead], sources: Sequence[Source], part: int, columns: Sequence[int]
) -> list[Source]:
    """The sources with columns read in another way that a row of `part` has shown to be of another kind."""
    layout = sources[part].layout
    changed = list(sources)
    for column in columns:
        name = layout.names[column]
        if not layout.others.get(column):
            for head, source in zip(heads, sources, strict=True):
                kind = ColumnKind.of(source.layout, head.place(name))
                if head is not heads[part] and head.has_seen(name) and kind.sort != "texts":
                    raise DataError(
                        f"Column '{name}' holds {kind.sort} in '{head.name}', but also texts in '{heads[part].name}'. "
                        "Correct that file or leave it out.",
                        Remedy.set("Or read the column as names in all files", "categorical", name),
                    )
        changed = [
            replace(s, layout=s.layout.reconsidered([h.place(name)])) for h, s in zip(heads, changed, strict=True)
        ]
    return changed


def _marks(dialect: Dialect) -> tuple[str, ...]:
    return tuple(str(getattr(dialect, name)) for name in MARKS)


def _differences(other: PartHead, first: PartHead) -> str:
    pairs = {name: (getattr(other.source.dialect, name), getattr(first.source.dialect, name)) for name in MARKS}
    said = [f"{MARKS[name]} {a or 'none'!r} in place of {b or 'none'!r}" for name, (a, b) in pairs.items() if a != b]
    return listed(said, 4)


def _lacking(having: Sequence[str], lacking: Sequence[str]) -> str:
    """Which files do not have a column, or which have it where those are fewer."""
    if len(having) < len(lacking):
        return f"only {listed(having, 3)} {'has' if len(having) == 1 else 'have'} it"
    return f"{listed(lacking, 3)} {'does' if len(lacking) == 1 else 'do'} not have it"


def _quoted(names: Sequence[str]) -> str:
    return listed([f"'{name}'" for name in names], 5)
