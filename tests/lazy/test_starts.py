"""What starts often loads nothing that it does not use: loading is most of the time that a small fit takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

UNUSED = {
    "asyncio", "email", "http.client", "importlib.metadata", "logging", "numpy.ma", "numpy.random", "optuna", "pandas",
    "psutil", "scipy", "sklearn", "sqlite3", "statistics", "streamlit", "torch", "urllib.request", "yaml",
}  # fmt: skip
OTHERS = (
    "backup", "cli", "client", "dashboard", "database", "engines", "library", "people", "queueing", "registry", "report", "runs",
    "search", "storage", "training", "tuning", "whatif",
)  # fmt: skip


def loaded(words: list[str], home: Path) -> set[str]:
    """The modules that a command has loaded when it is done."""
    code = f"import sys, json; from shoal.cli.app import main; main({words}); print(json.dumps([*sys.modules]))"
    environment = {**os.environ, "SHOAL_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def ours_of(modules: set[str]) -> set[str]:
    names = {name.removeprefix("shoal.") for name in modules if name.startswith("shoal.")}
    return {name for name in names if name.split(".")[0] in OTHERS and "." in name}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start") / "table.csv"
    path.write_text("a,b,y\n" + "".join(f"{i},{i * i % 7},{i % 5}\n" for i in range(40)))
    return path


def test_a_small_fit_loads_the_modules_of_a_fit(table: Path) -> None:
    for _ in ("it is read", "it is in the cache"):
        found = loaded(["train", str(table), "--target", "y"], table.parent / "home")
        assert "shoal.fitting.exact" in found
        assert found & UNUSED == set()
        assert ours_of(found) == {
            "cli.app", "cli.flags", "cli.printing", "engines.base", "engines.inline", "people.acting", "people.person",
            "runs.slots", "tuning.alpha",
        }  # fmt: skip


def test_the_help_loads_no_numbers_and_no_database() -> None:
    code = "import sys; from shoal.cli.app import _parser; _parser('').format_help(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120)
    found = set(done.stdout.split())
    assert "shoal.cli.team.hosts" in found, done.stderr
    assert found & (UNUSED | {"numpy", "shoal.people.deeds", "shoal.search.plan", "multiprocessing"}) == set()


def test_the_process_of_a_gradient_run_loads_no_choice_of_penalties() -> None:
    code = "import sys, shoal.processes.run, shoal.tasks.train, shoal.training.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120)
    found = set(done.stdout.split())
    assert "shoal.training.conductor" in found, done.stderr
    assert {name for name in found if name.startswith(("shoal.whatif", "shoal.tuning.", "shoal.registry"))} == {
        "shoal.tuning.alpha"
    }
    assert found & (UNUSED - {"logging", "sqlite3", "psutil"}) == set()
