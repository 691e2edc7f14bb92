"""What is worth knowing before a fit, on every page that leads to one: a short list, each with its remedy in one click.

How it is found is in `fitting.guidance`; what is left out belongs to the table, see `choices`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import label, line
from shoal.dashboard.parts.targets import SUITED
from shoal.dashboard.parts.waiting import watch
from shoal.dashboard.tables import at_hand, choices
from shoal.dashboard.tables.needed import inspection
from shoal.dashboard.tables.sources import Asked
from shoal.results.answers.table import ColumnLook
from shoal.results.findings import Finding, FindingKind, few_rows
from shoal.settings.config import RunConfig
from shoal.settings.when import LOSSES, penalty_knob
from shoal.words import limits_told, listed, plural, shortened, way_for

STUDY = "study"  # the part of an address that says how a table is prepared and tested
BY_TIME = "Tune by time"
KEEP_NA = "Keep NA as a name"
OPEN = 3  # lines that are not folded away
NAMES = 5  # columns in one line
SWITCHES = {"indicators": "Mark missing numbers"}  # knobs of a model that a click switches on
WAYS = {"half": "Read as half", "limit": "Read as the limit", "missing": "Treat as missing"}  # of <0.5 and >200
BY_BUTTON = (
    "missing",
    "exclude",
    "also_missing",
    "categorical",
    "limits",
    "one_spelling",
)  # knobs of a table that a click sets
TOGETHER = (FindingKind.SUM_LEAK, FindingKind.PRODUCT_LEAK)  # of several columns that tell only side by side


def show(found: Asked, switch_on: Callable[[str], None], **chosen: Any) -> None:
    """Nothing without a column to predict; a bar while the columns are looked at. `chosen` are knobs of the model, and
    `switch_on` is what the page does for one that is a switch, in a callback."""
    if not found.target:
        return
    look = inspection(replace(found.guidance, rules=tuple(chosen.get("rules") or ())))
    if look.goes_on:
        watch(look.run, "Looking for columns that give the target away")
        return
    if look.table is None:
        return
    advised = (_beside(finding, chosen) for finding in look.table.findings)
    columns = look.table.columns
    _list(found, [*_words_among_numbers(columns), *_limits(columns), *filter(None, advised)], switch_on)


def _words_among_numbers(columns: Sequence[ColumnLook]) -> list[Finding]:
    """What may keep rows from being read, and so comes first; many such columns have one line and one button."""
    having = [column for column in columns if column.words]
    if len(having) > OPEN - 1:
        every = tuple(dict.fromkeys(word for column in having for word, _ in column.words))
        names = listed([f"'{column.name}'" for column in having], NAMES)
        said = f"{plural(len(having), 'column')} hold numbers or dates but for words: {names}."
        return [_as_missing(having, said, every)]
    return [_as_missing([column], words_told(column), tuple(word for word, _ in column.words)) for column in having]


def _limits(columns: Sequence[ColumnLook]) -> list[Finding]:
    having = [column for column in columns if column.limits]
    if len(having) > OPEN - 1:
        said = f"{plural(len(having), 'column')} have limits such as <0.5 among their numbers: "
        names = tuple(column.name for column in having)
        return [_read_as(having, said + listed([f"'{name}'" for name in names], NAMES) + ".")]
    return [_read_as([column], limits_told(column.name, column.limits)) for column in having]


def _read_as(columns: Sequence[ColumnLook], said: str) -> Finding:
    names = tuple(column.name for column in columns)
    return Finding(FindingKind.LIMITS, names, said, "Say what they are read as", "limits", tuple(ways_of(columns)))


def ways_of(columns: Iterable[ColumnLook]) -> dict[str, str]:
    """What limits of these columns can be read as, with the words of buttons: half only of what is below them."""
    half = any(way_for(column.limits) == "half" for column in columns)
    return {way: text for way, text in WAYS.items() if half or way != "half"}


def _as_missing(columns: Sequence[ColumnLook], said: str, values: tuple[str, ...]) -> Finding:
    names = tuple(column.name for column in columns)
    return Finding(
        FindingKind.MISSING_CODE, names, said, "If they mean no value, count them so", "also_missing", values
    )


def words_told(column: ColumnLook) -> str:
    """Which words are among the numbers or dates of a column, and how often."""
    told = ", ".join(f"'{word}' ({plural(count, 'row')})" for word, count in column.words)
    return f"'{column.name}' holds {column.values_are} but for words: {told}."


def _beside(finding: Finding, chosen: dict[str, Any]) -> Finding | None:
    """A finding with the advice that suits what is chosen; the columns were looked at for a linear model."""
    if finding.kind == FindingKind.FEW_ROWS:
        return few_rows(finding.said, penalty_knob({**RunConfig().as_dict(), **chosen}))
    if finding.kind == FindingKind.DATES and places.is_on("tune") and "time:" in st.query_params.get(STUDY, ""):
        return None  # the advice is taken
    if finding.knob in SWITCHES and chosen.get(finding.knob):
        return None
    if finding.kind == FindingKind.SKEWED_TARGET and chosen.get("model") in LOSSES:
        return None
    return None if finding.knob == "model" and chosen.get("model") in finding.values else finding


def words(finding: Finding) -> str:
    """What was found and what can be done; a button says by itself what it does."""
    advice = (
        f"{finding.remedy.advice}." if finding.knob in (*BY_BUTTON, *SWITCHES) else wording.remedied(finding.remedy)
    )
    return f"{finding.said} {advice}"


def _list(found: Asked, findings: list[Finding], switch_on: Callable[[str], None]) -> None:
    left_out = [name for name in found.read.get("exclude", []) if name != found.target]
    if not findings and not left_out:
        return
    with st.container(border=True, key="guidance", gap="small"):
        if left_out:
            back = {"Take back": partial(choices.leave_out, found, [])}
            _line(f"Left out of models of this table: {listed(left_out, NAMES)}.", back, "guidance:back")
        shown = OPEN - bool(left_out)
        for place, finding in enumerate(findings[:shown]):
            _finding(found, finding, place, switch_on)
        if rest := findings[shown:]:
            with st.expander(f"{plural(len(rest), 'more thing')} worth knowing"):
                for place, finding in enumerate(rest, shown):
                    _finding(found, finding, place, switch_on)


def _finding(found: Asked, finding: Finding, place: int, switch_on: Callable[[str], None]) -> None:
    if finding.kind == FindingKind.DATES:
        _dates(found, finding, place)
        return
    if finding.knob in SWITCHES:
        _line(words(finding), {SWITCHES[finding.knob]: partial(switch_on, finding.knob)}, f"guidance:{place}")
        return
    if model := _offered_model(finding):
        with _row():
            line(f"{finding.said} {finding.advice} by another model.")
            _take_model(found, model)
        return
    _line(words(finding), {text: partial(choices.choose, found, finding.knob, _with(found, finding.knob, values))
                           for text, values in _buttons(finding).items()}, f"guidance:{place}")  # fmt: skip


def _dates(found: Asked, finding: Finding, place: int) -> None:
    """To folds by time; on the page that has them by a button, since a link to itself leaves the browser's address."""
    by_time = _by_time(finding.columns[0])
    if places.is_on("tune"):
        _line(words(finding), {BY_TIME: partial(_take_study, by_time)}, f"guidance:{place}")
        return
    with _row():
        line(words(finding))
        places.link("tune", BY_TIME, ":material/tune:", **{**found.address, STUDY: by_time})


def _by_time(column: str) -> str:
    """The study of the address with other folds; its preparation stays."""
    try:
        said = json.loads(st.query_params.get(STUDY, "{}"))
    except (ValueError, RecursionError):
        said = {}
    kept = said if isinstance(said, dict) else {}
    return json.dumps({**kept, "fold_by": f"time:{column}"}, separators=(",", ":"), sort_keys=True)


def _take_study(said: str) -> None:
    places.amend(**{STUDY: said})
    at_hand.hand_over("train", STUDY, said)


def _offered_model(finding: Finding) -> str:
    """The model of another loss that a finding asks for; empty where it asks for none."""
    return finding.values[0] if finding.knob == "model" and finding.values[0] in LOSSES else ""


def _take_model(found: Asked, model: str) -> None:
    """One click to the page that has it chosen: where one is, if that can tune it."""
    name = wording.choice_for("model", model)
    if places.is_on("tune") and model in LOSSES:
        places.link("tune", f"Tune: {name}", ":material/tune:", **{**found.address, "loss": model})
    else:
        places.link("train", f"Fit: {name}", ":material/model_training:", **{**found.address, SUITED: model})


def _with(found: Asked, knob: str, more: tuple[str, ...]) -> list[str]:
    kept = more if knob != "exclude" else [value for value in more if value != found.target]
    return [*found.read.get(knob, []), *kept]


def _buttons(finding: Finding) -> dict[str, tuple[str, ...]]:
    """What a click can do about it: a word for it, and the values that it adds to the finding's knob."""
    if finding.knob == "also_missing":
        return {"Treat as missing": finding.values}
    if finding.knob == "missing":
        return {KEEP_NA: finding.values}
    if finding.knob == "limits":
        return {
            text: tuple(f"{name}={way}" for name in finding.columns)
            for way, text in WAYS.items()
            if way in finding.values
        }
    if finding.knob == "categorical":
        return {"Read as names": finding.values}
    if finding.knob == "one_spelling":
        return {"Read as one": finding.values}
    gone = finding.leaves_out
    if finding.kind in TOGETHER and len(gone) <= OPEN:  # only one of them may be the culprit, and the others of use
        return {f"Leave out {shortened(name, 24)}": (name,) for name in gone}
    if not gone:
        return {}
    return {f"Leave out {shortened(gone[0], 24) if len(gone) == 1 else f'{len(gone)} columns'}": gone}


def _row() -> Any:
    return st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")


def _line(text: str, buttons: Mapping[str, partial[None]], key: str) -> None:
    with _row():
        line(text)
        if not buttons:
            return
        with st.container(horizontal=True, width="content"):  # side by side where the line is too narrow for them
            for place, (button, do) in enumerate(buttons.items()):
                own = key if len(buttons) == 1 else f"{key}:{place}"
                st.button(label(button), key=own, on_click=do, width="content")
