"""Plug-ins: found, checked and refused by name; the example is installed by pip and used in fresh processes."""

from __future__ import annotations

import csv
import inspect
import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal import data_pipeline, plugins
from shoal.data.previews import preview
from shoal.errors import ConfigError, DataError
from shoal.steps.optimizers import STEP_RULES, StepRule
from shoal.training.callbacks import Callback, callbacks_named

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "shoal_example_plugin"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution on the path: a module, and the metadata that pip would write."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))

    def install(name: str, group: str, entries: str, code: str = "", version: str = "1.2") -> None:
        module = name.replace("-", "_")
        (place / f"{module}.py").write_text(textwrap.dedent(code))
        info = place / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")

    yield install
    for module in place.glob("*.py"):
        sys.modules.pop(module.stem, None)


# ------------------------------------------------------------------ by name


def test_nothing_is_installed_by_default() -> None:
    assert [plugins.names(group) for group in plugins.WORDS] == [[], [], [], []]


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


def test_a_run_without_plug_ins_does_not_search() -> None:
    code = "import sys, pathlib; from shoal import data_pipeline; from shoal.training import callbacks; data_pipeline.plugin_reader(pathlib.Path('a.csv.gz'));" \
           "print('importlib.metadata' in sys.modules)"  # fmt: skip
    assert python(code, "").stdout == "False\n"


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
    found = data_pipeline.plugin_reader(Path("folder.odd") / name)
    assert (found is not None) == read
    assert data_pipeline.reader_question(Path(name)) == ({"reader": "plug-a 1.2: mine"} if read else {})


def test_the_longest_end_counts_and_two_of_one_end_are_refused(install: Install) -> None:
    with_reader(install, "'.odd'", "plug-a")
    with_reader(install, "'.very.odd', '.x', '.same'", "plug-b")
    with_reader(install, "'.same'", "plug-c")
    for name, origin in {"a.odd": "plug-a 1.2", "a.very.odd": "plug-b 1.2", "a.x": "plug-b 1.2"}.items():
        found = data_pipeline.plugin_reader(Path(name))
        assert found is not None
        assert found.origin == origin
    with pytest.raises(ConfigError, match=r"such as 'a\.same': plug-[bc] 1\.2 and plug-[bc] 1\.2"):
        data_pipeline.plugin_reader(Path("a.same"))


@pytest.mark.parametrize("code", [
    "class reader:\n    suffixes = ('.odd',)\n    def text(self, path): ...", "reader = 5",
    "class R:\n    suffixes = ('.odd',)\nreader = R()", "class R:\n    suffixes = '.odd'\n    text = print\nreader = R()",
    "class R:\n    suffixes = ('odd',)\n    text = print\nreader = R()", "class R:\n    suffixes = ()\n    text = print\nreader = R()",
    "class R:\n    suffixes = ('.ODD',)\n    text = print\nreader = R()", "class R:\n    suffixes = (5,)\n    text = print\nreader = R()",
])  # fmt: skip
def test_what_is_no_reader_is_refused(code: str, install: Install) -> None:
    install("plug-a", "shoal.readers", "mine = plug_a:reader", code)
    with pytest.raises(ConfigError, match=r"The reader 'mine' of the plug-in plug-a 1\.2 is not what it has to be"):
        data_pipeline.plugin_reader(Path("a.odd"))


def test_text_comes_in_pieces_of_any_size(install: Install, tmp_path: Path) -> None:
    rows = "".join(f"{i},{i / 7}\n" for i in range(50_000)).encode()
    with_reader(install, f"'.odd', pieces=[b'', b'a,', b'b\\n', b'', *[{rows!r}] * 3, b'9,9']")
    whole = b"a,b\n" + rows * 3 + b"9,9"
    path, target = tmp_path / "t.odd", tmp_path / "plain"
    path.write_bytes(b"PK\x03\x04 whatever it is")
    assert data_pipeline.file_format(path) == "plugin"
    assert data_pipeline.read_sample(path) == (whole[: data_pipeline.SAMPLE_BYTES], False)
    source = data_pipeline.inspect_text(path, {"delimiter": ";", "header": False, "encoding": "utf-16"}, (), ())
    assert (source.layout.names, source.data_start, source.dialect.delimiter) == (("a", "b"), 4, ",")
    data_pipeline.spool(path, source.dialect, target, lambda part: None)
    assert target.read_bytes() == whole


def test_texts_are_read_as_agreed_not_as_guessed(install: Install, tmp_path: Path) -> None:
    """One column; a header of numbers; semicolons, '#' and decimal commas in texts: nothing is guessed from them."""
    (tmp_path / "t.odd").write_text("")
    text = b'1\n"#1;2,5"\n"#2;3,5"\n'
    with_reader(install, f"'.odd', pieces=[{text!r}]")
    source = data_pipeline.inspect_text(tmp_path / "t.odd", {}, (), ())
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
        data_pipeline.inspect_text(tmp_path / "t.odd", {}, (), ())


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
    data_pipeline.read_sample(tmp_path / "t.odd")
    assert sys.modules["plug_a"].left == [tmp_path / "t.odd"]


# ------------------------------------------------------------------ the example, installed


def python(code: str, path: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh process that has the project and, perhaps, an installed plug-in on its path."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, timeout=90, cwd="/",
        env={**os.environ, "PYTHONPATH": path, **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that pip has installed the example into, as a person would, without an index."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))  # a build leaves folders
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *flags, "--target", folder / "site", folder / "source"],
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(folder / "site")


def result(code: str, site: str, **environment: str) -> Any:
    """What a fresh process prints as JSON; `problem` is known to it."""
    prelude = "from typing import Any\nimport numpy as np\n" + inspect.getsource(problem)
    done = python(prelude + textwrap.dedent(code), site, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_example_names(site: str) -> None:
    code = (
        "import json; from shoal import plugins; print(json.dumps([plugins.names(group) for group in plugins.WORDS]))"
    )
    assert result(code, site) == [["nonnegative_lasso"], ["sign"], ["best_round"], ["json_lines"]]


def test_example_leaves_no_build_behind() -> None:
    assert {path.name for path in EXAMPLE.iterdir()} - {"__pycache__"} == {"pyproject.toml", "shoal_example_plugin.py"}


def problem() -> tuple[Any, Any]:
    """Standardised columns and a centred target; some weights of the least-squares fit are negative."""
    random = np.random.default_rng(3)
    X = random.normal(size=(200, 6)) @ (np.eye(6) + 0.3)
    y = X @ np.array([2.0, -1.5, 0.0, 0.7, -0.1, 0.05]) + random.normal(size=200)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, y - y.mean()


PROXIMAL_GRADIENT = """
    import json, sys
    import numpy as np
    from shoal import plugins
    X, y = problem()
    penalty = plugins.make_penalty("nonnegative_lasso", 0.05, 0.5, len(y))
    rate, w, gaps = len(y) / np.linalg.norm(X, 2) ** 2, np.zeros(6), []
    for _ in range(3000):
        gradient = X.T @ (X @ w - y) / len(y)
        gaps.append(penalty.optimality_gap(w, gradient))
        w = penalty.prox(w - rate * gradient, rate)
    print(json.dumps({"w": w.tolist(), "first": gaps[0], "last": gaps[-1], "value": penalty.value(w)}))
"""


def test_example_penalty_leads_to_the_optimum_that_scikit_learn_finds(site: str) -> None:
    from sklearn.linear_model import Lasso

    X, y = problem()
    reference = Lasso(alpha=0.05, positive=True, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
    assert (reference == 0).any()
    assert (reference > 0).any()
    found = result(PROXIMAL_GRADIENT, site)
    np.testing.assert_allclose(found["w"], reference, atol=1e-7)
    assert found["first"] == pytest.approx(max((X.T @ y / len(y)).max() - 0.05, 0))
    assert found["last"] < 1e-12
    assert found["value"] == pytest.approx(0.05 * np.abs(reference).sum())


PROX = """
    import json
    import numpy as np
    from shoal import plugins
    penalty = plugins.make_penalty("nonnegative_lasso", 0.5, 0.5, 10.0)
    w, steps = np.array([2.0, 0.3, 0.0, -1.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0, 4.0])
    one, each = penalty.prox(w, 1.0), penalty.prox(w, steps)
    bad = penalty.value(w), penalty.optimality_gap(w, w)
    print(json.dumps([one.tolist(), each.tolist(), [str(x) for x in bad]]))
"""


def test_example_prox_is_the_minimum_by_brute_force(site: str) -> None:
    one, each, bad = result(PROX, site)
    grid = np.linspace(0, 3, 30_001)  # all values that are allowed
    for w, step, found in zip([2.0, 0.3, 0.0, -1.0, 1.0] * 2, [1.0] * 9 + [4.0], one + each, strict=True):
        best = grid[np.argmin((grid - w) ** 2 / 2 + step * 0.5 * grid)]
        assert found == pytest.approx(best, abs=2e-4)
    assert bad == ["inf", "inf"]


SIGN = """
    import json
    import numpy as np
    from shoal import plugins
    from shoal.steps.optimizers import STEP_RULES, StepRule
    from shoal.models import L1L2
    kind = plugins.find_class(plugins.STEP_RULES, "sign", StepRule, STEP_RULES)
    free = lambda w, step: w
    rule = kind(3, 0.5)
    g = np.array([4.0, -1.0, 0.0])
    first = rule.step(np.zeros(3), g, 0.1, free)
    saved = rule.state()
    second = rule.step(first, -g / 4, 0.1, free)   # the mean is still along g
    third = rule.step(second, -2 * g, 0.1, free)   # and now turned round
    other = kind(3, 0.5)
    other.restore(saved)
    again = other.step(first, -g / 4, 0.1, free)
    rule.reset()
    fresh = rule.step(np.zeros(3), -g, 0.1, free)
    X, y = problem()
    lasso, w, rule = L1L2(l1=0.2), np.zeros(6), kind(6, 0.0)
    for i in range(4000):
        gradient = X.T @ (X @ w - y) / len(y)
        w = rule.step(w, gradient, 0.5 / (1 + i / 4), lasso.prox)
    print(json.dumps([v.tolist() for v in (first, second, third, again, fresh, w)] + [kind(3).safe_rate(1.0, 5.0)]))
"""


def test_example_step_rule_steps_along_signs_and_rests_at_the_optimum(site: str) -> None:
    from sklearn.linear_model import Lasso

    first, second, third, again, fresh, w, rate = result(SIGN, site)
    np.testing.assert_allclose(first, [-0.1, 0.1, 0])
    np.testing.assert_allclose(second, [-0.2, 0.2, 0])
    np.testing.assert_allclose(third, first, atol=1e-15)
    assert again == second
    np.testing.assert_allclose(fresh, [0.1, -0.1, 0])
    X, y = problem()
    reference = Lasso(alpha=0.2, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
    np.testing.assert_allclose(w, reference, atol=2e-3)
    assert 0 < rate < 5


BEST = """
    import sys
    from types import SimpleNamespace
    from shoal.training.callbacks import callbacks_named
    callbacks = callbacks_named(["best_round"], sys.exit)
    run = SimpleNamespace()
    callbacks.run_started(run)
    for number, (loss, validation) in enumerate([(3.0, 0.25), (1.0, 0.75), (0.5, 0.5)]):
        run.weights = lambda: np.full(2, float(number))
        callbacks.round_ended(run, SimpleNamespace(round=number, loss=loss, validation=validation))
    callbacks.run_ended(run, "finished")
    print(len(callbacks))
"""


def test_example_callback_keeps_the_best_round(site: str, tmp_path: Path) -> None:
    assert result(BEST, site, SHOAL_BEST_ROUND=str(tmp_path / "best.json")) == 1
    assert json.loads((tmp_path / "best.json").read_text()) == {"round": 1, "loss": 0.25, "weights": [1, 1]}
    unset = python(
        "import os; os.environ.pop('SHOAL_BEST_ROUND', 0); "
        + "from shoal.training.callbacks import callbacks_named as c; c(['best_round'], print)",
        site,
    )
    assert "errors.ConfigError: The callback 'best_round'" in unset.stderr
    assert "SHOAL_BEST_ROUND" in unset.stderr


# ------------------------------------------------------------------ the example's reader, through the product

ROWS: list[dict[str, Any]] = [
    {"size": i * 0.1, "kind": ["a", "b, \"c\"", "#d\ne"][i % 3], "price": 3 + 0.7 * i * 0.1 - [0, 1, 2.5][i % 3] + (i * 37 % 11) / 10,
     **({"extra": i % 4} if i > 5 else {})}
    for i in range(400)
]  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + "\n")
    return path


def shoal(site: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return python(
        "import sys; from shoal.cli import app as cli; sys.exit(cli.main(sys.argv[1:]))", site, *map(str, arguments)
    )


def design() -> tuple[Any, Any]:
    """Intercept, size, two of three kinds; by hand."""
    X = np.array([[1, row["size"], row["kind"] == ROWS[1]["kind"], row["kind"] == "a"] for row in ROWS], float)
    return X, np.array([row["price"] for row in ROWS])


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_train_reads_json_lines(engine: str, site: str, rows: Path) -> None:
    done = shoal(site, "train", rows, "--target", "price", "--exclude", "extra", "--engine", engine, "--json")
    assert done.returncode == 0, done.stderr
    X, y = design()
    rss = np.linalg.lstsq(X, y)[1]
    report = json.loads(done.stdout)
    train = report["metrics"]["train"] if "metrics" in report else report["train"]
    assert train["rows"] == len(ROWS)
    assert train["rmse"] == pytest.approx(np.sqrt(rss[0] / len(y)), rel=1e-10)
    assert train["r2"] == pytest.approx(1 - rss[0] / ((y - y.mean()) ** 2).sum(), rel=1e-10)
    assert not list((rows.parent / "home").rglob("plain"))


def test_inspect_and_predict_read_json_lines(site: str, rows: Path) -> None:
    model, out = rows.with_name("model.json"), rows.with_name("out.csv")
    seen = shoal(site, "inspect", rows, "--json")
    assert seen.returncode == 0, seen.stderr
    assert [column["name"] for column in json.loads(seen.stdout)["columns"]] == ["size", "kind", "price", "extra"]
    done = shoal(site, "train", rows, "--target", "price", "--exclude", "extra", "--out", model)
    assert done.returncode == 0, done.stderr
    done = shoal(site, "predict", model, rows, "--out", out)
    assert done.returncode == 0, done.stderr
    X, y = design()
    predicted = [float(row[-1]) for row in list(csv.reader(io.StringIO(out.read_text())))[1:]]
    np.testing.assert_allclose(predicted, X @ np.linalg.lstsq(X, y)[0], rtol=1e-9)


def test_what_another_reader_made_of_the_file_is_not_used(site: str, rows: Path) -> None:
    """The file is the same, but without the plug-in it is no table of these columns, and with it it is again."""
    for path, code in (("", 1), (site, 0), ("", 1)):
        done = shoal(path, "train", rows, "--target", "price", "--json")
        assert done.returncode == code, (path, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "said"), [("{", "Line 401 of 'rows.jsonl' is not JSON"), ("[1]", "Expected a JSON object in line 401")]
)
def test_a_line_that_is_wrong_is_said(line: str, said: str, site: str, rows: Path) -> None:
    rows.write_text(rows.read_text().rstrip("\n") + f"\n{line}\n")
    done = shoal(site, "train", rows, "--target", "price")
    assert done.returncode == 1
    assert done.stderr.startswith(f"shoal: {said}"), done.stderr
    assert not list((rows.parent / "home").rglob("*.bin"))


@pytest.mark.parametrize("mode", ["sync", "local"])
def test_a_gradient_run_uses_penalty_step_rule_callback_and_reader(
    mode: str, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All four kinds in one run; scikit-learn's lasso without negative weights is the reference."""
    from sklearn.linear_model import Lasso

    random = np.random.default_rng(3)
    X = random.normal(size=(400, 5)) * [1, 2, 3, 4, 5]
    y = X @ [1.0, 0.5, -1.0, 0.25, 0.0] + random.normal(size=400)
    path = tmp_path / "rows.jsonl"
    rows = [{**{f"x{j}": value for j, value in enumerate(row)}, "y": target} for row, target in zip(X, y, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHOAL_BEST_ROUND", str(tmp_path / "best.json"))
    done = shoal(
        site, "train", path, "--target", "y", "--solver", "gradient", "--mode", mode, "--penalty", "nonnegative_lasso",
        "--alpha", "0.05", "--step-rule", "sign", "--callbacks", "best_round", "--workers", "2", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["converged"], report["cause"]
    reference = Lasso(alpha=0.05, positive=True, tol=1e-12, max_iter=100_000).fit((X - X.mean(0)) / X.std(0), y)
    found = list(report["coefficients_standardized"].values())
    np.testing.assert_allclose(found, reference.coef_, atol=1e-4)
    assert found[2] == 0
    assert json.loads((tmp_path / "best.json").read_text())["round"] > 0
