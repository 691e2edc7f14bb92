"""What is worth knowing before a fit, each with what can be done about it; how it is found is in `fitting.guidance`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from shoal.errors import Remedy
from shoal.lazy.classes import dataclass
from shoal.words import list_text, listed

LEAVE_OUT = "exclude"  # the knob that most remedies set
NAMES = "categorical"  # that of columns whose values are names
ONE_SPELLING = "one_spelling"  # that of columns whose texts are told apart without capitals and blanks
MISSING = "missing"  # that of texts that mean no value
NAMED = 5  # columns in one sentence
LITTLE = 1e-3  # share of the spread below which nothing to speak of is explained


class FindingKind(StrEnum):
    """In the order in which they are told: what makes a model worthless first."""

    TEXT_TARGET = "text_target"
    EMPTY_TARGET = "empty_target"
    LEAK = "leak"
    SUM_LEAK = "sum_leak"
    PRODUCT_LEAK = "product_leak"
    MISSING_CODE = "missing_code"
    LIMITS = "limits"
    ID = "id"
    ZERO_LED = "zero_led"
    SPELLINGS = "spellings"
    WITHOUT_NA = "without_na"
    TOTALS = "totals"
    GAPS = "gaps"
    WORSE = "worse"
    SEPARATED = "separated"
    TWO_VALUES = "two_values"
    FEW_ROWS = "few_rows"
    SKEWED_TARGET = "skewed_target"
    DUPLICATE = "duplicate"
    DATES = "dates"
    MARK = "mark"
    CONSTANT = "constant"


# What can be done about a target of two values, or of text; the one place that says so.
TWO_VALUES_ADVICE = "For probabilities, in place of a straight line that may lie beyond both, fit it"
CLASSES_ADVICE = "To tell these classes apart, fit it"
TWO_TEXTS_ADVICE = "For the probability of one of them, fit it"
TEXT_ADVICE = "Choose a column of numbers, or one with up to 50 texts for a logistic or multinomial model"
# And about one with a long end.
ERRORS_GROW = "Look at these rows; if errors grow with the value, as those of prices do, fit it"
FAR_ROWS = "Look at these rows; so that none of them decides alone, fit it"
YES_OR_NO = ("model", ("logistic",))  # the knob, and its values, that such a target asks for


@dataclass(frozen=True)
class Finding:
    """One sentence, and advice: a knob to set to values, one to switch on, or, without a knob, words alone."""

    kind: str
    columns: tuple[str, ...]
    said: str
    advice: str  # without a full stop
    knob: str = ""
    values: tuple[str, ...] = ()

    @property
    def remedy(self) -> Remedy:
        if self.knob and not self.values:
            return Remedy.switch_on(self.advice, self.knob)
        if self.kind == FindingKind.PRODUCT_LEAK and len(self.values) > 1:  # the other may be the best that there is
            return Remedy.choose(self.advice, self.knob)
        return Remedy.set(self.advice, self.knob, list_text(self.values)) if self.knob else Remedy.say(self.advice)

    @property
    def leaves_out(self) -> tuple[str, ...]:
        """The columns that its remedy leaves out of the model."""
        return self.values if self.knob == LEAVE_OUT else ()

    def __str__(self) -> str:
        """As the command line words it."""
        return f"{self.said} {self.remedy}"


class Routine(str):
    """A note on how things were done, which everybody may pass over; all others are to be minded."""


def routine(notes: Iterable[str]) -> tuple[Routine, ...]:
    return tuple(map(Routine, notes))


def routine_among(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(note) for note in notes if isinstance(note, Routine))


def no_end() -> Finding:
    """Coefficients of a model without a penalty grow without end; a note says of which columns."""
    said = "Without a penalty its coefficients have no end, and what it says of new rows may be far too certain."
    return Finding(FindingKind.SEPARATED, (), said, "To hold the coefficients, fit it", "shrink", ("ridge",))


def worse_than_nothing(explained: float | None, has_log_link: bool, knob: str) -> tuple[Finding, ...]:
    """Of a model that leaves more of its test rows than always predicting the same does, where another may do better.

    `explained` is the share that it takes away, `knob` the one that puts a penalty on it, empty where it has one."""
    if explained is None or explained >= -LITTLE:
        return ()
    said = "On test rows it does worse than its baseline, the same prediction for every row."
    if has_log_link:
        said += " Its columns multiply, which goes far off at their ends where their effects add up."
        return (Finding(FindingKind.WORSE, (), said, "To let them add up, fit it", "model", ("linear",)),)
    return (Finding(FindingKind.WORSE, (), said, "Let a penalty help", knob, ("ridge",)),) if knob else ()


def marks(names: Sequence[str], rows: int, of: int) -> Finding:
    """Columns that have one number or none: filled in, they would say nothing."""
    shown, one = listed([f"'{name}'" for name in names], NAMED), len(names) == 1
    said = (
        f"{shown} {'has' if one else 'have'} one number or none, as a mark does"
        f"{f' ({rows:,} of {of:,} rows)' if one else ''}; filled in, {'it says' if one else 'they say'} nothing."
    )
    advice = f"To compare rows with and without, read {'it' if one else 'them'} as names"
    return Finding(FindingKind.MARK, tuple(names), said, advice, NAMES, tuple(names))


def zero_led(names: Sequence[str]) -> Finding:
    """Columns of numbers with zeros before them, as codes have: a model would take 01067 for a quantity."""
    shown, one = listed([f"'{name}'" for name in names], NAMED), len(names) == 1
    said = f"{shown} {'has' if one else 'have'} leading zeros, as postal codes have (01067): codes, not quantities?"
    advice = f"If so, read {'it' if one else 'them'} as names"
    return Finding(FindingKind.ZERO_LED, tuple(names), said, advice, NAMES, tuple(names))


def without_na(names: Sequence[str], tokens: Sequence[str]) -> Finding:
    """Columns of codes of two letters in which NA is read as no value; `tokens`: what else means none."""
    shown, one = listed([f"'{name}'" for name in names], NAMED), len(names) == 1
    said = f"{shown} {'has' if one else 'have'} codes of two letters, and NA, which is read as no value: a code too?"
    advice = "If so, let only these mean no value"
    return Finding(FindingKind.WITHOUT_NA, tuple(names), said, advice, MISSING, tuple(tokens))


def spelled(columns: Mapping[str, Sequence[str]]) -> Finding:
    """Columns in which one value is written in several ways, and an example of each: to a model these are strangers."""
    shown = [f"'{name}' ({' and '.join(map(repr, texts))})" for name, texts in columns.items()]
    said = f"Only capitals or blanks tell values apart in {listed(shown, NAMED)}."
    return Finding(
        FindingKind.SPELLINGS, tuple(columns), said, "If they are one, read them so", ONE_SPELLING, tuple(columns)
    )


def few_rows(said: str, knob: str) -> Finding:
    """`knob` is the one that puts a penalty on the model; none where it has one."""
    if knob:
        return Finding(FindingKind.FEW_ROWS, (), said, "Let a penalty help", knob, ("ridge",))
    return Finding(
        FindingKind.FEW_ROWS, (), said, "Its penalty helps; believe only errors in cross-validation and on test rows"
    )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """What matters most first; a kind that a later program has found comes last."""
    order = {str(kind): place for place, kind in enumerate(FindingKind)}
    return tuple(sorted(findings, key=lambda finding: order.get(finding.kind, len(order))))
