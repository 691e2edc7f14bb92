"""In which order test files are run, and which of them beside each other: what takes long begins first."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest

# So that no long file is begun when the others are done. xdist would begin with the files of most tests, and end with those of a
# browser, which have few and long ones.
FIRST = (
    "chromium",
    "install",
    "engines/cluster",
    "training/survival",
    "travel",
    "people",
    "search",
    "library",
    "dashboard",
    "training",
)
# Folders whose files share what is made once a session, in one process: a cluster, a team and its things, two servers.
TOGETHER = ("engines/cluster", "people", "dashboard/http")
CLUSTER = "yard"  # a process that has joined this one can try no other address: tests of addresses come before it


def _folders(nodeid: str) -> list[str]:
    """The folders that a test is in, from the innermost one, without `tests`."""
    path = PurePath(nodeid.split("::")[0])
    return [str(parent).removeprefix("tests/") for parent in path.parents]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> tuple[int, bool]:
        folder = next((FIRST.index(folder) for folder in _folders(item.nodeid) if folder in FIRST), len(FIRST))
        return folder, CLUSTER in getattr(item, "fixturenames", ())

    items.sort(key=place)  # which keeps the order within a place


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Packing(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            return next((folder for folder in _folders(nodeid) if folder in TOGETHER), scope)

    config.option.loadscopereorder = False  # ours is better
    return Packing(config, log)
