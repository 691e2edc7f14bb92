"""The words of the pages beside those of the command line: whoever knows one finds the other."""

from __future__ import annotations

import re

import pytest

from shoal.dashboard.parts import wording
from shoal.settings.config import RunConfig

CHOICES = [
    (name, choice)
    for name, knob in RunConfig.knobs().items()
    for choice in (*(knob.metadata.get("choices") or ()), *(knob.metadata.get("known") or ()))
]


@pytest.mark.parametrize(("knob", "choice"), CHOICES)
def test_a_choice_has_the_word_of_its_flag_in_it(knob: str, choice: str) -> None:
    assert _plain(choice) in _plain(wording.choice_for(knob, choice))


def test_there_are_words_for_choices_only_that_exist() -> None:
    known = {choice for _, choice in CHOICES}
    assert set(wording.CHOICES) <= known
    assert {choice for words in wording.CHOICES_OF.values() for choice in words} - {""} <= known


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9_]", "", text.lower())
