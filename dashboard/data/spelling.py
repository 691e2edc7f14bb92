"""Which of several spellings is right, where a guessed encoding may be wrong: the words of a file as other encodings
have them, one click each. How an encoding is guessed is in `data.formats.encodings`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import partial

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


def offered(found: Asked, result: TableLook) -> Iterator[partial[None]]:
    """A line with its buttons where the guess is in doubt; nothing once somebody has said the encoding."""
    guess = str(result.dialect.get("encoding", ""))
    if "encoding" in found.read or guess not in (name for family in FAMILIES for name in family):
        return
    words = _words(result)
    others = spellings(words, guess) if in_doubt(words, guess) else []
    if others:
        yield partial(_offer, found, guess, others)


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


def spellings(words: Sequence[str], guess: str) -> list[tuple[str, str, str]]:
    """Encodings in which about all words are words as well: each with one of them as it is, and as it would be."""
    family = next(family for family in FAMILIES if guess in family)
    found: list[tuple[str, str, str]] = []
    for name in family:
        read = [_read(word, guess, name) for word in words]
        differing = [pair for pair in zip(words, read, strict=True) if pair[1] and pair[0] != pair[1]]
        sound = sum(map(_is_word, read))
        if not differing or name == guess or sound < LEAST * max(1, sum(map(_is_word, words))):
            continue
        now, then = min(differing, key=lambda pair: (not _is_word(pair[1]), len(pair[0]) > 14))
        if _is_word(then):
            found.append((name, now, then))
    return found[:OFFERED]


def _read(word: str, guess: str, name: str) -> str:
    try:
        return word.encode(guess).decode(name)
    except UnicodeError:
        return ""


def _is_word(text: str) -> bool:
    """Letters only, and none of them a capital after a small one."""
    return text.isalpha() and not any(a.islower() and b.isupper() for a, b in itertools.pairwise(text))


def _offer(found: Asked, guess: str, others: Sequence[tuple[str, str, str]]) -> None:
    names = {name: words for words, name in ENCODINGS.items()}
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        line(
            f"The file does not say how its letters are to be read: {names.get(guess, guess)} is a guess. Which is right?"
        )
        with st.container(horizontal=True, width="content"):
            for name, word in ((guess, others[0][1]), *((name, then) for name, _, then in others)):
                st.button(
                    label(shortened(word, 24)), key=f"gaps:encoding:{name}", width="content",
                    help=f"{names.get(name, name)}: the file is read so from now on.",
                    on_click=read_otherwise, args=(found, {**found.read, "encoding": name}),
                )  # fmt: skip
