"""Names from addresses: whatever they are, the answer is that there is no such thing, never a failure or another file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette

from shoal.dashboard.http.download_route import export_of, predictions_of
from shoal.dashboard.tables.sources import find_table, table_of
from shoal.home import entry_name, home, runs_directory
from shoal.library.archives import is_archived
from shoal.library.saved_models import find_model
from shoal.runs.folder import find_run
from shoal.search.folder import find_search
from support.dashboard.gate import call

LONG = 5_000  # more than any system takes for a name
NAMES = [
    "a" * LONG, "é" * 150, "a/" * LONG, "..", ".", "", "../..", "../config.json", "/etc/passwd", "\x00", "\ud800",
    f"{'0' * 24}/{'a' * LONG}.csv", f"file:{'a' * LONG}", "a\nb",
]  # fmt: skip
FINDERS: dict[str, Callable[[str], object]] = {
    "run": find_run, "search": find_search, "archive": is_archived, "model": find_model, "table": find_table,
    "file": table_of, "predictions": predictions_of, "export": lambda name: export_of(name, "report.html"),
}  # fmt: skip


@pytest.mark.parametrize("finder", FINDERS)
def test_there_is_no_such_thing(home: Path, finder: str) -> None:
    runs_directory().mkdir(parents=True)
    (home / "config.json").write_text("{}")  # beside the folder of runs: '..' would lead to it
    for name in NAMES:
        assert not FINDERS[finder](name), name[:40]


@pytest.mark.parametrize(
    "route", ["/api/runs/{}/stream", "/api/tune/{}", "/api/tune/{}/worth", "/api/predictions/{}", "/api/export/{}/x",
              "/api/report/{}/report.html", "/api/{}"],
)  # fmt: skip
def test_routes_say_so_too(app: Starlette, route: str) -> None:
    for name in NAMES:
        path = route.format(name.encode("utf-8", "replace").decode())
        assert call(app, path).status in (404, 410), path[:60]


def test_names_of_entries() -> None:
    assert entry_name("20260101-120000-0000001") == "20260101-120000-0000001"
    assert [entry_name(text) for text in ("../x", "a/b", "..", "x" * 201)] == ["x", "b", "", ""]
    assert home().is_absolute()
