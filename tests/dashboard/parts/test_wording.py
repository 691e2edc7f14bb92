"""The words of the pages beside those of the command line: whoever knows one finds the other."""

from __future__ import annotations

import re

import pytest

from shoal.dashboard.parts import wording
from shoal.results.findings import LEAVE_OUT, Finding, FindingKind
from shoal.settings.config import RunConfig

CHOICES = [
    (name, choice)
    for name, knob in RunConfig.knobs().items()
    for choice in (*(knob.metadata.get("choices") or ()), *(knob.metadata.get("known") or ()))
]


@pytest.mark.parametrize(("knob", "choice"), CHOICES)
def test_a_choice_has_the_word_of_its_flag_in_it(knob: str, choice: str) -> None:
    assert _plain(choice) in _plain(wording.choice_for(knob, choice))


def test_a_remedy_of_hundreds_of_columns_is_a_sentence_and_whole_on_the_command_line() -> None:
    names = tuple(f"a sensor of the eastern hall {j}" for j in range(200))
    finding = Finding(FindingKind.DUPLICATE, names, "Columns say the same.", "One is enough", LEAVE_OUT, names)
    assert len(wording.remedied(finding.remedy)) < 250
    assert wording.remedied(finding.remedy).endswith("199'.")
    assert all(name in str(finding.remedy) for name in names)


def test_there_are_words_for_choices_only_that_exist() -> None:
    known = {choice for _, choice in CHOICES}
    assert set(wording.CHOICES) <= known
    assert {choice for words in wording.CHOICES_OF.values() for choice in words} - {""} <= known


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9_]", "", text.lower())
