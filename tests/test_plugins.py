"""Plug-ins: found by name, checked for what they have to be, and readers for other files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal import plugins
from shoal.data import files
from shoal.data.first_look.source import inspect_text
from shoal.data.formats import plugin_text
from shoal.errors import ConfigError, DataError
from shoal.steps.optimizers import STEP_RULES, StepRule
from shoal.tasks.previews import preview
from shoal.training.callbacks import Callback, callbacks_named
from support.brought.example_plugin import at_hand

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution on the path: a module, and the metadata that pip would write."""
    yield from at_hand(tmp_path / "site", monkeypatch)


# ------------------------------------------------------------------ by name


def test_nothing_is_installed_by_default() -> None:
    assert [plugins.names(group) for group in plugins.WORDS] == [[]] * len(plugins.WORDS)


def test_a_plug_in_is_found_by_its_name(install: Install) -> None:
    install("plug-a", "shoal.penalties", "one = plug_a:first\ntwo = plug_a:second", "first, second = object(), 2")
    install("plug-b", "shoal.callbacks", "three = plug_b:x", "x = 3")
    assert plugins.names("shoal.penalties") == ["one", "two"]
    assert plugins.find("shoal.penalties", "two") == 2
    assert plugins.find("shoal.callbacks", "three") == 3
    assert plugins.names("shoal.readers") == []


def test_listing_loads_nothing(install: Install) -> None:
    install("plug-a", "shoal.penalties", "one = plug_a:x", "raise RuntimeError('loaded')")
    assert plugins.names("shoal.penalties") == ["one"]


def test_an_unknown_name_lists_what_there_is(install: Install) -> None:
    install("plug-a", "shoal.step_rules", "one = plug_a:x")
    with pytest.raises(ConfigError, match=r"Expected as step rule one of sgd, adam, one, got 'adm'\. Correct"):
        plugins.find("shoal.step_rules", "adm", ["sgd", "adam"])


def test_an_unknown_name_where_nothing_is_installed() -> None:
    with pytest.raises(ConfigError, match="of which there is none, got 'x'"):
        plugins.find("shoal.penalties", "x")


BROKEN = {
    "an import that is not there": ("one = plug_a:x", "import not_a_module", "ModuleNotFoundError"),
    "a name that is not there": ("one = plug_a:x", "", "AttributeError"),
    "a module that is not there": ("one = plug_absent:x", "", "ModuleNotFoundError"),
    "wrong syntax": ("one = plug_a:x", "def", "SyntaxError"),
    "an exit": ("one = plug_a:x", "raise SystemExit(3)", "SystemExit"),
    "an error": ("one = plug_a:x", "1 / 0", "ZeroDivisionError"),
    "a list that cannot be read": ("one", "", "could not be read"),
    "an entry without a module": ("one = :", "", "could not be loaded"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plug_in_is_said_with_its_distribution(case: str, install: Install) -> None:
    entries, code, expected = BROKEN[case]
    install("plug-a", "shoal.penalties", entries, code)
    with pytest.raises(ConfigError, match=r"plug-a 1\.2") as raised:
        plugins.find("shoal.penalties", "one")
    assert expected in str(raised.value)
    assert "nstall" in str(raised.value)


def test_a_broken_list_of_something_else_is_no_concern_of_ours(install: Install) -> None:
    install("other", "console_scripts", "garbage")
    assert plugins.names("shoal.penalties") == []


def test_a_built_in_name_cannot_be_taken(install: Install) -> None:
    install("plug-a", "shoal.step_rules", "adam = plug_a:x\nmine = plug_a:x", "x = 1")
    for name in ("mine", "adam", "nobody"):
        with pytest.raises(ConfigError, match=r"plug-a 1\.2 has a step rule 'adam', which is the name of a built-in"):
            plugins.find("shoal.step_rules", name, STEP_RULES)
    with pytest.raises(ConfigError, match="built-in"):
        plugins.names("shoal.step_rules", STEP_RULES)


def test_two_of_one_name_are_refused_when_it_is_asked_for(install: Install) -> None:
    install("plug-a", "shoal.penalties", "same = plug_a:x\nown = plug_a:x", "x = 1")
    install("plug-b", "shoal.penalties", "same = plug_b:x", "x = 2")
    with pytest.raises(ConfigError, match=r"plug-[ab] 1\.2 and plug-[ab] 1\.2"):
        plugins.find("shoal.penalties", "same")
    assert plugins.find("shoal.penalties", "own") == 1


def test_of_two_copies_the_first_on_the_path_counts(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("plug-a", "shoal.penalties", "one = plug_a:x", "x = 1")
    shutil.copytree(tmp_path / "site", tmp_path / "other")
    (tmp_path / "other" / "plug_a.py").write_text("x = 2")
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    assert plugins.find("shoal.penalties", "one") == 2


# ------------------------------------------------------------------ by what they have to be


def test_a_class_has_to_be_of_the_right_base(install: Install) -> None:
    install("plug-a", "shoal.step_rules", "rule = plug_a:Rule\nno = plug_a:No\nmade = plug_a:made", """
        from shoal.steps.optimizers import SGD
        class Rule(SGD): pass
        class No: pass
        made = Rule(3)
    """)  # fmt: skip
    assert issubclass(plugins.find_class("shoal.step_rules", "rule", StepRule), StepRule)
    for name in ("no", "made"):
        with pytest.raises(
            ConfigError,
            match=rf"'{name}' of the plug-in plug-a 1\.2 .* a subclass of shoal\.steps\.optimizers\.StepRule",
        ):
            plugins.find_class("shoal.step_rules", name, StepRule)


PENALTY = """
    from shoal.errors import ConfigError
    class Good:
        def __init__(self, *knobs): self.knobs = knobs
        def value(self, w): return 0.0
        def prox(self, w, step): return w
        def optimality_gap(self, w, gradient): return 0.0
    class Half:
        def __init__(self, *knobs): pass
        def value(self, w): return 0.0
        prox = None
    def fails(alpha, l1_ratio, n): raise ValueError("alpha is odd")
    def refuses(alpha, l1_ratio, n): raise ConfigError("Expected an even alpha.")
    class Few:
        def __init__(self, alpha): pass
"""


def test_a_penalty_is_made_and_checked(install: Install) -> None:
    names = ("Good", "Half", "fails", "refuses", "Few")
    install("plug-a", "shoal.penalties", "\n".join(f"{name.lower()} = plug_a:{name}" for name in names), PENALTY)
    good: Any = plugins.make_penalty("good", 0.5, 0.25, 100.0)
    assert good.knobs == (0.5, 0.25, 100.0)
    with pytest.raises(ConfigError, match=r"'half' of the plug-in plug-a 1\.2 .* prox, optimality_gap"):
        plugins.make_penalty("half", 0.5, 0.25, 100.0)
    with pytest.raises(ConfigError, match=r"plug-a 1\.2 .*alpha=0\.5.*ValueError: alpha is odd"):
        plugins.make_penalty("fails", 0.5, 0.25, 100.0)
    with pytest.raises(ConfigError, match=r"^Expected an even alpha\.$"):
        plugins.make_penalty("refuses", 0.5, 0.25, 100.0)
    with pytest.raises(ConfigError, match="TypeError"):
        plugins.make_penalty("few", 0.5, 0.25, 100.0)


def test_callbacks_are_made_by_name(install: Install) -> None:
    install("plug-a", "shoal.callbacks", "one = plug_a:One\nwants = plug_a:Wants\nno = plug_a:No", """
        from shoal.training.callbacks import Callback
        class One(Callback): pass
        class Wants(Callback):
            def __init__(self, more): pass
        class No: pass
    """)  # fmt: skip
    assert len(callbacks_named(["one", "one"], pytest.fail)) == 1
    with pytest.raises(ConfigError, match=r"callback 'wants' .*TypeError"):
        callbacks_named(["one", "wants"], pytest.fail)
    with pytest.raises(ConfigError, match=r"plug-a 1\.2 .* a subclass of shoal\.training\.callbacks\.Callback"):
        callbacks_named(["no"], pytest.fail)
    assert plugins.find_class("shoal.callbacks", "one", Callback).__name__ == "One"


# ------------------------------------------------------------------ readers


READER = """
    from shoal.errors import DataError
    class Reader:
        def __init__(self, *suffixes, pieces=(b"a,b\\n1,2\\n",)): self.suffixes, self.pieces = suffixes, pieces
        def text(self, path):
            for piece in self.pieces:
                if isinstance(piece, Exception): raise piece
                yield piece
    reader = Reader({arguments})
"""


def with_reader(install: Install, arguments: str, name: str = "plug-a") -> None:
    module = name.replace("-", "_")
    install(name, "shoal.readers", f"mine = {module}:reader", READER.format(arguments=arguments))


@pytest.mark.parametrize(("name", "read"), [
    ("x.odd", True), ("x.ODD", True), ("x.y.odd", True), ("x.odd.gz", False), ("x.od", False), ("xodd", False), ("x.csv", False),
    ("x.deep.er", True), ("x.er", False), ("x.packed.gz", True), ("x.txt", False),
])  # fmt: skip
def test_a_reader_is_chosen_by_the_end_of_the_name(name: str, read: bool, install: Install) -> None:
    with_reader(install, "'.odd', '.deep.er', '.packed.gz', '.csv', '.txt'")
    found = plugin_text.plugin_reader(Path("folder.odd") / name)
    assert (found is not None) == read
    assert plugin_text.reader_question(Path(name)) == ({"reader": "plug-a 1.2: mine"} if read else {})


def test_the_longest_end_counts_and_two_of_one_end_are_refused(install: Install) -> None:
    with_reader(install, "'.odd'", "plug-a")
    with_reader(install, "'.very.odd', '.x', '.same'", "plug-b")
    with_reader(install, "'.same'", "plug-c")
    for name, origin in {"a.odd": "plug-a 1.2", "a.very.odd": "plug-b 1.2", "a.x": "plug-b 1.2"}.items():
        found = plugin_text.plugin_reader(Path(name))
        assert found is not None
        assert found.origin == origin
    with pytest.raises(ConfigError, match=r"such as 'a\.same': plug-[bc] 1\.2 and plug-[bc] 1\.2"):
        plugin_text.plugin_reader(Path("a.same"))


@pytest.mark.parametrize("code", [
    "class reader:\n    suffixes = ('.odd',)\n    def text(self, path): ...", "reader = 5",
    "class R:\n    suffixes = ('.odd',)\nreader = R()", "class R:\n    suffixes = '.odd'\n    text = print\nreader = R()",
    "class R:\n    suffixes = ('odd',)\n    text = print\nreader = R()", "class R:\n    suffixes = ()\n    text = print\nreader = R()",
    "class R:\n    suffixes = ('.ODD',)\n    text = print\nreader = R()", "class R:\n    suffixes = (5,)\n    text = print\nreader = R()",
])  # fmt: skip
def test_what_is_no_reader_is_refused(code: str, install: Install) -> None:
    install("plug-a", "shoal.readers", "mine = plug_a:reader", code)
    with pytest.raises(ConfigError, match=r"The reader 'mine' of the plug-in plug-a 1\.2 is not what it has to be"):
        plugin_text.plugin_reader(Path("a.odd"))


def test_text_comes_in_pieces_of_any_size(install: Install, tmp_path: Path) -> None:
    rows = "".join(f"{i},{i / 7}\n" for i in range(50_000)).encode()
    with_reader(install, f"'.odd', pieces=[b'', b'a,', b'b\\n', b'', *[{rows!r}] * 3, b'9,9']")
    whole = b"a,b\n" + rows * 3 + b"9,9"
    path, target = tmp_path / "t.odd", tmp_path / "plain"
    path.write_bytes(b"PK\x03\x04 whatever it is")
    assert files.file_format(path) == "plugin"
    assert files.read_sample(path) == (whole[: files.SAMPLE_BYTES], False)
    source = inspect_text(path, {"delimiter": ";", "header": False, "encoding": "utf-16"}, (), ())
    assert (source.layout.names, source.data_start, source.dialect.delimiter) == (("a", "b"), 4, ",")
    files.spool(path, source.dialect, target, lambda part: None)
    assert target.read_bytes() == whole


def test_texts_are_read_as_agreed_not_as_guessed(install: Install, tmp_path: Path) -> None:
    """One column; a header of numbers; semicolons, '#' and decimal commas in texts: nothing is guessed from them."""
    (tmp_path / "t.odd").write_text("")
    text = b'1\n"#1;2,5"\n"#2;3,5"\n'
    with_reader(install, f"'.odd', pieces=[{text!r}]")
    source = inspect_text(tmp_path / "t.odd", {}, (), ())
    assert source.layout.names == ("1",)
    assert (source.dialect.comment, source.dialect.delimiter, source.data_start) == ("", ",", 2)
    assert preview(tmp_path / "t.odd", source.dialect.as_dict(), ["1"]) == [["#1;2,5"], ["#2;3,5"]]


@pytest.mark.parametrize(("pieces", "kind", "said"), [
    ("[b'a\\n', ValueError('row 3')]", DataError, r"'t\.odd' could not be read by the plug-in plug-a 1\.2 \(ValueError: row 3\)"),
    ("[OSError(28, 'No space')]", DataError, "plug-a"),
    ("[DataError('Line 3 is odd.')]", DataError, r"^Line 3 is odd\.$"),
    ("['text']", ConfigError, r"Expected bytes from the reader 'mine' of the plug-in plug-a 1\.2, got str"),
    ("5", DataError, "TypeError"),
    ("[]", DataError, "empty"),
])  # fmt: skip
def test_a_reader_that_fails_is_said_to_have(
    pieces: str, kind: type[Exception], said: str, install: Install, tmp_path: Path
) -> None:
    (tmp_path / "t.odd").write_text("")
    with_reader(install, f"'.odd', pieces={pieces}")
    with pytest.raises(kind, match=said):
        inspect_text(tmp_path / "t.odd", {}, (), ())


def test_a_reader_that_is_left_early_lets_go_of_its_file(install: Install, tmp_path: Path) -> None:
    install("plug-a", "shoal.readers", "mine = plug_a:reader", """
        left = []
        class R:
            suffixes = (".odd",)
            def text(self, path):
                try:
                    yield b"a\\n" * 2_000_000
                    yield b"never\\n" * 1_000_000
                finally:
                    left.append(path)
        reader = R()
    """)  # fmt: skip
    files.read_sample(tmp_path / "t.odd")
    assert sys.modules["plug_a"].left == [tmp_path / "t.odd"]
