"""A guessed encoding that may be wrong is asked about by its words, first of all that is to be settled, in one click."""

from __future__ import annotations

import json

import pytest

from shoal.dashboard.data.spelling import in_doubt, spellings
from shoal.dashboard.tables import uploads
from support.pages import checked, open_page, said, settle, uploaded

HUNGARIAN = "Női ruházat Férfi cipő Játék Utánvét Győr hűtő"
POLISH = "Łódź Kraków Gdańsk śląskie dziękuję"


def words(text: str, encoding: str, guess: str) -> list[str]:
    return [word for word in text.encode(encoding).decode(guess).split() if not word.isascii()]


@pytest.mark.parametrize(
    ("text", "encoding", "guess"), [(HUNGARIAN, "cp1250", "latin-1"), (POLISH, "cp1250", "cp1252")]
)
def test_the_right_spelling_is_among_those_offered(text: str, encoding: str, guess: str) -> None:
    read = words(text * 9, encoding, guess)
    assert in_doubt(read, guess)
    (_, wrong), (name, right), *_ = spellings(read, guess)
    assert name == encoding
    assert wrong.encode(guess) == right.encode(encoding)
    assert right in text.split()


@pytest.mark.parametrize("text", ["août été là-bas français", "São não ações João", "Müller Straße Köln", "più città"])
def test_nobody_is_asked_where_many_usual_letters_speak_for_the_guess(text: str) -> None:
    assert not in_doubt(words(f"{text} " * 20, "cp1252", "latin-1"), "latin-1")


def test_a_click_on_the_right_spelling_reads_the_file_so() -> None:
    rows = "".join(f"Žilina;Košice;{i};{i * 2}\n" for i in range(30))
    path = uploaded(f"Mesto;Cieľ;cena;y\n{rows}".encode("cp1250"), "predaj.csv")
    key = uploads.key_of(path) or ""
    page = settle(open_page(data=key))
    offers = [button.label for button in page.button if str(button.key).startswith("gaps:")]
    assert offers == ["Cieæ", "Cieľ"]
    assert "Which spelling is right?" in said(page)
    page = settle(checked(page.button(key="gaps:encoding:cp1250").click().run()))
    assert json.loads(page.query_params["read"]) == {"encoding": "cp1250"}
    assert "Which spelling is right?" not in said(page)
