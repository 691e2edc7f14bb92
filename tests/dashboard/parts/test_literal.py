"""Labels of people and files: text, never markup."""

from __future__ import annotations

import pytest

from shoal.dashboard.parts.literal import label


@pytest.mark.parametrize("text", ["body_mass_g", "price", "Größe in cm", "a-b.c", "2008"])
def test_labels_without_marks_stay_as_they_are(text: str) -> None:
    assert label(text) == text


@pytest.mark.parametrize(
    "text",
    ["_a_", "a _b_ c", "www.x.de", "**x**", ":smile:", ":material/home:", "https://x.y/z", "$x$", "![i](j)", "`c`"],
)
def test_labels_lose_nothing_but_their_power(text: str) -> None:
    plain = label(text).replace("\\", "").replace("\u2060", "")
    assert plain == text
    assert label(text) != text
