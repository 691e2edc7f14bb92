"""Labels of people and files: text, never markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shoal.dashboard.parts.literal import label

ROOT = Path(__file__).parents[3]


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


def test_no_part_of_a_page_leaves_out_a_level_of_headings() -> None:
    """Below the one heading of a page (`st.title`, `heading`) everything is of the second level (`st.header`, `section`)."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "dashboard").rglob("*.py"))
        if path.parent.name != "monitoring"  # whose text is for Prometheus, where a # begins a comment
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(r"st\.subheader|[\"']#+ |<h[3-6]", line)
    ]
    assert found == []
