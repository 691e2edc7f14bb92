"""The documentation is whole and true: its links lead somewhere, nothing is loaded from elsewhere, its code runs."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt

import shoal

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(600)  # many processes one after the other, perhaps on a busy machine
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: str, *languages: str) -> Iterator[tuple[str, str]]:
    """The blocks of code of a page, with their languages."""
    for token in MarkdownIt().parse((ROOT / page).read_text("utf-8")):
        if token.type == "fence" and token.info in languages:
            yield token.info, token.content


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with `shoal` and `python3` those of this environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    yield tmp_path
    shoal.close_pools()


# ------------------------------------------------------------------ the site


def site(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.site", str(folder), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_site_is_whole_and_has_the_public_api(tmp_path: Path) -> None:
    done = site(tmp_path / "site")
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.stem for path in (tmp_path / "site" / "docs").glob("*.html")}
    assert pages == {path.stem for path in (ROOT / "docs").glob("*.md")}
    reference = (tmp_path / "site" / "reference" / "shoal.html").read_text("utf-8")
    for name in shoal.__all__:
        assert f'id="{name}"' in reference, name


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ('<a href="gone.html">x</a>', "gone.html is not there"),
        ('<a href="#gone">x</a>', "#gone has no such place"),
        ('<a href="other.html#gone">x</a>', "other.html#gone has no such place"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js from elsewhere"),
        ('<img src="//cdn.example/x.png">', "loads //cdn.example/x.png from elsewhere"),
        ('<link rel="stylesheet" href="http://cdn.example/x.css">', "loads http://cdn.example/x.css from elsewhere"),
        ('<style>@import "https://cdn.example/x.css";</style>', "loads https://cdn.example/x.css from elsewhere"),
        ("<style>b { background: url(https://cdn.example/x) }</style>", "loads https://cdn.example/x from elsewhere"),
        ('<a href="https://example.org">x</a> <a href="other.html#here">y</a> <a href="#top">z</a>', None),
    ],
)
def test_what_is_wrong_with_a_site_is_found(inside: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f'<html><body id="top">{inside}</body></html>')
    (tmp_path / "other.html").write_text('<html><body><p id="here"></p></body></html>')
    code = "import sys; from pathlib import Path; from tools.site_check import problems; print(*problems(Path(sys.argv[1])), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (f"index.html: {problem}" if problem else "")


# ------------------------------------------------------------------ code


def test_every_step_of_the_tutorial_does_what_it_says(folder: Path) -> None:
    """Files are written, commands run and their output compared, Python run as doctests, in the order of the page."""
    names: dict[str, object] = {}
    for language, code in blocks("docs/tutorial.md", "python", "console", "pycon"):
        if language == "python":
            (folder / code.split()[1]).write_text(code)
        elif language == "console":
            run_console(code)
        else:
            run_session(code, names)


def run_console(code: str) -> None:
    for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        same = doctest.OutputChecker().check_output(expected, done.stdout, LIKE)
        assert same, f"{command}\n{done.stdout}"


def run_session(code: str, names: dict[str, object]) -> None:
    session = doctest.DocTestParser().get_doctest(code, names, "tutorial", None, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=LIKE)
    runner.run(session, out=said.append, clear_globs=False)
    names |= session.globs
    assert runner.failures == 0, "".join(said)


def test_the_readmes_python_runs(folder: Path) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    y = X @ [1.0, 2.0] + random.normal(size=200)
    for name in ("data.csv", "new.csv"):
        np.savetxt(folder / name, np.column_stack([X, y]), delimiter=",", header="a,b,price", comments="")
    ((_, code),) = blocks("README.md", "python")
    exec(compile(code, "README.md", "exec"), {"X": X, "y": y})


@pytest.mark.parametrize("page", sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
def test_python_on_other_pages_is_python(page: str) -> None:
    for _, code in blocks(page, "python"):
        compile(code, page, "exec")
