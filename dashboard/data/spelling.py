"""Which of several spellings is right, where a guessed encoding may be wrong: the words of a file as other encodings
have them, one click each. How an encoding is guessed is in `data.formats.encodings`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import streamlit as st

from shoal.dashboard.data.options import ENCODINGS, read_otherwise
from shoal.dashboard.parts.literal import label, line
from shoal.dashboard.tables.sources import Asked
from shoal.results.answers.table import TableLook
from shoal.words import shortened

FAMILIES = (  # of encodings that are taken for one another, likely ones first
    ("cp1252", "latin-1", "cp1250", "cp1254", "cp1257", "cp850", "mac-roman"),
    ("cp1251", "koi8-r", "cp866"),
)
WESTERN = ("cp1252", "latin-1")
WORD = re.compile(r"[A-Za-z\u0080-\U0010ffff]*[\u0080-\U0010ffff][A-Za-z\u0080-\U0010ffff]*")
USUAL = frozenset("áàâäãåæçéèêëíìîïñóòôöõøúùûüßœ°²³€£§–’“”«»…\xa0")  # in Western European texts, signs beside words too
HUNGARIAN, BESIDE = frozenset("õû"), frozenset("ãêçàèâåøæñ")  # ő and ű read so; what the others that have them have too
MANY, FEW = 300, 40  # words that are looked at; letters below which any guess is a weak one
LEAST = 0.9  # of the words that have to be words, for a spelling to be offered
OFFERED = 3


def doubt(found: Asked, result: TableLook) -> list[tuple[str, str]]:
    """Encodings to choose from, each with a word, where the guess is in doubt; none once somebody has said it."""
    guess = str(result.dialect.get("encoding", ""))
    if "encoding" in found.read or guess not in (name for family in FAMILIES for name in family):
        return []
    words = _words(result)
    return spellings(words, guess) if in_doubt(words, guess) else []


def ask(found: Asked, words: Sequence[tuple[str, str]]) -> None:
    """A line with a button for each spelling."""
    names = {name: text for text, name in ENCODINGS.items()}
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        said = "The file does not say how its letters are to be read"
        line(f"{said}; {names.get(words[0][0], words[0][0])} is a guess. Which spelling is right?")
        with st.container(horizontal=True, width="content"):
            for name, word in words:
                st.button(
                    label(shortened(word, 24)), key=f"gaps:encoding:{name}", width="content",
                    help=f"{names.get(name, name)}: the file is read so from now on.",
                    on_click=read_otherwise, args=(found, {**found.read, "encoding": name}),
                )  # fmt: skip


def _words(result: TableLook) -> list[str]:
    """Words with other letters than ASCII has: of names, levels and the first rows."""
    texts = [
        *(column.name for column in result.columns),
        *(level for column in result.columns for level, _ in column.frequent or ()),
        *(cell for row in result.preview or () for cell in row),
    ]
    found = (word for text in texts for word in WORD.findall(text) if len(word) > 2)
    return list(dict.fromkeys(found))[:MANY]


def in_doubt(words: Sequence[str], guess: str) -> bool:
    letters = [letter for word in words for letter in word.lower() if not letter.isascii()]
    if guess not in WESTERN or len(letters) < FEW:
        return 0 < len(letters) < FEW
    seen = set(letters)
    return bool(seen - USUAL) or bool(seen & HUNGARIAN and not seen & BESIDE)


def spellings(words: Sequence[str], guess: str) -> list[tuple[str, str]]:
    """One word as several encodings have it, the guess first: the word that tells the likely ones apart. They are those
    in which about all words are words as well; where there is no other, there is nothing to choose."""
    family = next(family for family in FAMILIES if guess in family)
    enough = LEAST * max(1, sum(map(_is_word, words)))
    sound = [name for name in family if sum(_is_word(_read(word, guess, name)) for word in words) >= enough]

    def told(word: str) -> dict[str, str]:
        found = {word: guess}
        for name in sound:
            if _is_word(other := _read(word, guess, name)):
                found.setdefault(other, name)
        return found

    best = max(map(told, words), key=lambda found: [name in found.values() for name in sound if name != guess])
    return [(name, word) for word, name in best.items()][: 1 + OFFERED] if len(best) > 1 else []


def _read(word: str, guess: str, name: str) -> str:
    try:
        return word.encode(guess).decode(name)
    except UnicodeError:
        return ""


def _is_word(text: str) -> bool:
    """Letters only, and none of them a capital after a small one."""
    return text.isalpha() and not any(a.islower() and b.isupper() for a, b in itertools.pairwise(text))
