"""Which of two values is the yes of a question, where nobody says it."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.data.notation.spelling import in_one_spelling

YES = frozenset({  # in one spelling, as those for no are
    "yes", "y", "true", "t", "1", "on", "ja", "j", "oui", "o", "si", "sí", "sim", "s", "da", "positive", "pos",
    "success", "won", "died", "churned", "default", "defaulted", "evet", "var", "tak", "ano", "áno", "igen", "да",
    "так", "ναι", "kyllä", "jah", "jā", "taip", "bai", "sì", "ya", "có", "はい", "有", "是", "예", "네", "نعم", "כן",
    "हाँ",
})  # fmt: skip
NO = frozenset({
    "no", "n", "false", "f", "0", "off", "nein", "nee", "nej", "nei", "non", "não", "nao", "negative", "neg",
    "hayir", "yok", "nie", "ne", "nem", "нет", "ні", "не", "όχι", "ei", "nē", "tidak", "không", "いいえ", "無", "否",
    "아니오", "아니요", "لا", "לא", "नहीं",
})  # fmt: skip


def value_name(value: float) -> str:
    """A number among two values, as a person would write it."""
    return str(int(value)) if value == int(value) else repr(float(value))


def yes_among(names: Sequence[str], numbers: bool) -> int:
    """The place of the word for yes, else of that which is not a word for no; else, as of numbers, the second."""
    first, second = map(_leaning, names)
    return 0 if first > second and not numbers else 1


def _leaning(name: str) -> int:
    word = in_one_spelling(name)
    return (word in YES) - (word in NO)
