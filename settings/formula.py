"""A formula, `price ~ area * C(city, ref="Oslo") + log(lot)`, as the knobs that say the same. What columns hold is not
looked at; what knobs cannot say is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NoReturn

from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.lazy.patterns import pattern
from shoal.settings.levels import SIGN
from shoal.settings.pairs import pair_text
from shoal.settings.transforms import COUNTS, DATES, NUMBERS, PLAIN
from shoal.words import list_items

NAME = "formula"
SHAPES = (*NUMBERS, *DATES)
ALL = "."
_TOKEN = pattern(
    r"\s*(?:(?P<quoted>`[^`]+`)|(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>\d+)|(?P<name>[^\W\d][\w.]*)|"
    r"(?P<sign>\*\*|[-+~:*^(),=.|/%]))"
)


def expanded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Knobs in which a formula may stand, without it: what it says beside what else is said."""
    rest = {name: value for name, value in values.items() if name != NAME}
    if not values.get(NAME):
        return rest
    for name, value in knobs_of(str(values[NAME])).items():
        if isinstance(value, list):
            given = rest.get(name) or []
            rest[name] = [*dict.fromkeys([*(list_items(given) if isinstance(given, str) else given), *value])]
        elif rest.get(name) not in (None, "", value):
            raise ConfigError(
                f"The formula says {name} {value!r}, and {name} is given as {rest[name]!r}. Leave one of them out.",
                knobs=[NAME, name],
            )
        else:
            rest[name] = value
    return rest


def knobs_of(formula: str) -> dict[str, Any]:
    """The knobs that a formula stands for: the target, and of the others those that it names."""
    return _FormulaReader(formula).read()


@dataclass(frozen=True)
class _Atom:
    """A column as a formula names it: as it is, in a shape, or squared."""

    column: str
    how: str = PLAIN
    squared: bool = False
    said: str = ""


@dataclass
class _Found:
    """What was read so far."""

    ways: dict[str, list[str]] = field(default_factory=dict)  # of each column
    squares: list[str] = field(default_factory=list)
    pairs: list[tuple[_Atom, _Atom]] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    reference: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    intercept: bool = True
    all: bool = False

    def add(self, atom: _Atom) -> None:
        if atom.squared:
            self.squares.append(atom.column)
        else:
            own = self.ways.setdefault(atom.column, [])
            own += [atom.how] if atom.how not in own else []


class _FormulaReader:
    def __init__(self, formula: str) -> None:
        self.formula, self.found = formula, _Found()
        self.tokens = self._tokens()
        self.place = 0

    def _tokens(self) -> list[tuple[str, str]]:
        found, place = [], 0
        text = self.formula.rstrip()
        while place < len(text):
            token = _TOKEN.match(text, place)
            if not token:
                self._refuse(f"'{text[place:].strip()[:20]}' cannot be read")
            place = token.end()
            kind = str(token.lastgroup)
            found.append((kind, token[kind]))
        return found

    def read(self) -> dict[str, Any]:
        target = self._column("the column to predict before ~")
        if self._next() != ("sign", "~"):
            self._refuse("expected ~ after the column to predict (a shape of it cannot be predicted)")
        minus = self._takes("-")
        self._item(minus)
        while self.place < len(self.tokens):
            sign = self._next()[1]
            if sign not in ("+", "-"):
                self._refuse(f"expected + or - between terms, got '{sign}'")
            self._item(sign == "-")
        return {"target": target, **self._knobs()}

    # ---- terms

    def _item(self, minus: bool) -> None:
        kind, text = self._peek()
        if kind == "number":
            self._next()
            if text not in ("0", "1"):
                self._refuse(f"expected 0 or 1 as a number, which says whether there is an intercept, got {text}")
            self.found.intercept = (text == "1") != minus
        elif (kind, text) == ("sign", ALL):
            self._next()
            self.found.all = True
        elif minus:
            self.found.exclude.append(self._column("a column after -"))
        else:
            self._product()

    def _product(self) -> None:
        first = self._atom()
        kind, sign = self._peek()
        if sign not in (":", "*") or kind != "sign":
            if sign in ("^", "**", "|", "/", "%"):
                self._refuse(f"'{sign}' between columns is not understood; a square is I({first.column}**2)")
            self.found.add(first)
            return
        self._next()
        second = self._atom()
        if self._peek()[1] in (":", "*"):
            self._refuse("products of three columns cannot be had; of two, they can")
        for atom in (first, second):
            if atom.squared:
                self._refuse(f"{atom.said} cannot be in a product")
            if sign == "*":
                self.found.add(atom)
        self.found.pairs.append((first, second))

    def _atom(self) -> _Atom:
        kind, text = self._next()
        if kind == "quoted":
            return _Atom(text[1:-1])
        if kind != "name":
            self._refuse(f"expected a column, got '{text}'" if text else "it ends where a column is expected")
        if not self._takes("("):
            return _Atom(text)
        function = text.removeprefix("np.")
        if function == "C":
            return self._categorical()
        if function == "I":
            return self._square()
        if function == "Q":
            name = self._text("the name of a column in quotes in Q()")
            self._close("Q")
            return _Atom(name)
        return self._shape(function)

    def _categorical(self) -> _Atom:
        column = self._column("a column in C()")
        self.found.categorical.append(column)
        if self._takes(","):
            word = self._next()[1]
            inside = word == "Treatment" and self._takes("(")
            if inside and self._peek()[0] == "name":
                word = self._next()[1]
            named = self._takes("=")
            if not (inside or named) or word not in ("ref", "reference", "Treatment"):
                self._refuse(f'\'{word}\' in C() is not understood: expected ref="..." or Treatment("...")')
            level = self._text("the level to compare with in quotes")
            self.found.reference.append(f"{column}{SIGN}{level}")
            if inside:
                self._close("Treatment")
        self._close("C")
        return _Atom(column)

    def _square(self) -> _Atom:
        column = self._column("a column in I()")
        if self._next()[1] not in ("**", "^") or self._next() != ("number", "2"):
            self._refuse(f"I() is understood as a square only: I({column}**2)")
        self._close("I")
        return _Atom(column, squared=True, said=f"I({column}**2)")

    def _shape(self, function: str) -> _Atom:
        how = "spline" if function == "bs" else function
        if how not in SHAPES:
            self._refuse(f"{function}() is not understood; there are C, I, {', '.join(SHAPES)}, bs")
        column = self._column(f"a column in {function}()")
        if how in COUNTS:
            number = self._count(function, column)
            how = f"{how}({number - 1 if function == 'bs' else number})"
        self._close(function)
        return _Atom(column, how, said=f"{function}({column})")

    def _count(self, function: str, column: str) -> int:
        wanted = f"{function}({column}, df=6)" if function == "bs" else f"{function}({column}, 5)"
        if not self._takes(","):
            self._refuse(f"{function}() says how many: {wanted}")
        if self._peek()[0] == "name":
            name = self._next()[1]
            if (name, function) != ("df", "bs") or not self._takes("="):
                self._refuse(f"'{name}' in {function}() is not understood: {wanted}")
        kind, text = self._next()
        if kind != "number":
            self._refuse(f"{function}() says how many: {wanted}")
        return int(text)

    # ---- words

    def _peek(self) -> tuple[str, str]:
        return self.tokens[self.place] if self.place < len(self.tokens) else ("", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self.place += 1
        return token

    def _takes(self, sign: str) -> bool:
        if self._peek() != ("sign", sign):
            return False
        self.place += 1
        return True

    def _close(self, function: str) -> None:
        if not self._takes(")"):
            self._refuse(
                f"'{self._peek()[1]}' in {function}() is not understood" if self._peek()[1] else "a ) is missing"
            )

    def _column(self, what: str) -> str:
        kind, text = self._next()
        if kind == "name" and text == "Q" and self._takes("("):
            name = self._text("the name of a column in quotes in Q()")
            self._close("Q")
            return name
        if kind not in ("name", "quoted"):
            self._refuse(f"expected {what}, got '{text}'")
        return text.strip("`")

    def _text(self, what: str) -> str:
        kind, text = self._next()
        if kind != "text":
            self._refuse(f"expected {what}, got '{text}'")
        return text[1:-1]

    def _refuse(self, why: str) -> NoReturn:
        raise ConfigError(
            f"Expected a formula such as price ~ area * C(city) + log(lot), got '{self.formula}': {why}. "
            "Correct it, or use knobs instead.", knobs=[NAME],
        )  # fmt: skip

    # ---- knobs

    def _knobs(self) -> dict[str, Any]:
        found = self.found
        if found.all:
            for ways in found.ways.values():
                ways += [PLAIN] if PLAIN not in ways else []
        for name in found.squares:
            if PLAIN not in found.ways.get(name, [PLAIN] if found.all else []):
                self._refuse(f"a square needs its column beside it: {name} + I({name}**2)")
        for pair in found.pairs:
            for atom in pair:
                self._check_side(atom)
        for name in found.exclude:
            if not found.all:
                self._refuse(f"'- {name}' takes out what is not there; it goes with . for all columns")
        shaped = {name: ways for name, ways in found.ways.items() if ways != [PLAIN]}
        lists = {
            "features": [] if found.all else list(found.ways), "exclude": found.exclude, "squares": found.squares,
            "transform": [f"{name}{SIGN}{'+'.join(ways)}" for name, ways in shaped.items()],
            "interactions": [pair_text(a.column, b.column) for a, b in found.pairs],
            "categorical": found.categorical, "reference": found.reference,
        }  # fmt: skip
        if not (found.all or found.ways):
            self._refuse("it names no column to predict from")
        return {
            **{name: [*dict.fromkeys(value)] for name, value in lists.items() if value},
            **({} if found.intercept else {"intercept": False}),
        }

    def _check_side(self, atom: _Atom) -> None:
        """Products are of all shapes that a column has, and of columns that are there by themselves."""
        ways = self.found.ways.get(atom.column, [PLAIN] if self.found.all else [])
        said = atom.said or atom.column
        if atom.how not in ways:
            self._refuse(f"a product needs its columns beside it: {said} is not there by itself; write * in place of :")
        if len(ways) > 1:
            self._refuse(f"a product of {said} would be of all its shapes ({', '.join(ways)}); name one of them only")
