"""The checkout works in a folder of any name, by the commands of the README."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.installed import ROOT, answer, call, copy_of_checkout, dashboard, environment, environment_variables, table

pytestmark = pytest.mark.timeout(600)  # many processes one after the other, perhaps on a busy machine


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with an environment in it, as `make` leaves one behind."""
    folder = copy_of_checkout(tmp_path_factory.mktemp("clones") / "models and utils")
    environment(folder / ".venv", "-e", folder)
    for name in (".python", ".run"):
        (folder / ".venv" / name).touch()
    return folder


def test_the_package_is_the_one_of_that_folder(clone: Path, tmp_path: Path) -> None:
    file, coefficients = table(tmp_path / "table.csv")
    variables = environment_variables(tmp_path / "home", PATH="/usr/bin:/bin")
    said = call(clone / ".venv/bin/shoal", "train", file, "--target", "y", "--json", cwd=clone, env=variables)
    assert json.loads(said)["coefficients"] == pytest.approx(coefficients, rel=1e-9)
    where = call(clone / ".venv/bin/python", "-c", "import shoal.utils; print(shoal.utils.__file__)", env=variables)
    assert Path(where.strip()) == clone / "utils.py"


def test_make_run_starts_the_dashboard(clone: Path, tmp_path: Path) -> None:
    variables = environment_variables(tmp_path / "home", PATH="/usr/bin:/bin")
    flags = "--port 0 -- --server.scriptHealthCheckEnabled true"
    command: list[str | Path] = ["make", "run", f"ARGS={flags}"]
    with dashboard(command, clone, variables, tmp_path / "said") as address:
        assert answer(f"{address}/_stcore/script-health-check") == (200, "ok")


def test_its_tests_run(clone: Path, tmp_path: Path) -> None:
    """One small file of them; it finds the package, the shared helpers and the settings of pytest."""
    file = Path("tests/steps/test_scaling.py")
    assert (ROOT / file).exists()
    said = call(
        clone / ".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", file,
        cwd=clone, env=environment_variables(tmp_path),
    )  # fmt: skip
    assert " passed" in said
