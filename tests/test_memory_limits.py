"""The memory that there is: what the machine has free, and what the container that this runs in may still take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from shoal.utils import available_memory

MB = 1 << 20


def machine(root: Path, groups: str, **files: str | int) -> Path:
    """A folder with the files of a system: `groups` are the lines of /proc/self/cgroup, the rest lies below /sys."""
    told = root / "proc/self/cgroup"
    told.parent.mkdir(parents=True)
    told.write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def one_tree(root: Path) -> Path:
    """Control groups of version 2, as a service of systemd has them: the slice around it has the tighter limit."""
    stat = f"anon {50 * MB}\ninactive_file {10 * MB}\nactive_file {5 * MB}"
    return machine(root, "0::/work.slice/shoal.service\n", **{
        "work.slice/shoal.service/memory.max": "max", "work.slice/shoal.service/memory.current": 60 * MB,
        "work.slice/memory.max": 100 * MB, "work.slice/memory.current": 65 * MB, "work.slice/memory.stat": stat,
    })  # fmt: skip


def own_tree(root: Path) -> Path:
    """A container of version 2, whose group is the topmost that it sees; it may be slowed down before its limit."""
    return machine(root, "0::/\n", **{
        "memory.max": 200 * MB, "memory.high": 90 * MB, "memory.current": 40 * MB, "memory.stat": "inactive_file 0",
    })  # fmt: skip


def tree_for_each(root: Path) -> Path:
    """A container of version 1, which is told the name that its group has outside."""
    stat = f"cache {9 * MB}\ninactive_file 0\ntotal_inactive_file {7 * MB}\ntotal_active_file {3 * MB}"
    groups = "12:cpuset:/docker/f00\n5:cpu,memory:/docker/f00\n1:name=systemd:/docker/f00\n0::/docker/f00\n"
    return machine(root, groups, **{
        "memory/memory.limit_in_bytes": 80 * MB, "memory/memory.usage_in_bytes": 40 * MB, "memory/memory.stat": stat,
    })  # fmt: skip


@pytest.mark.parametrize(("system", "left"), [(one_tree, 50), (own_tree, 50), (tree_for_each, 50)])
def test_a_limit_of_a_container_is_one(system: Callable[[Path], Path], left: int, tmp_path: Path) -> None:
    assert available_memory(system(tmp_path)) == left * MB


def test_a_container_that_is_full_has_nothing_left(tmp_path: Path) -> None:
    assert available_memory(machine(tmp_path, "0::/\n", **{"memory.max": 5, "memory.current": 9})) == 0


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"memory.max": "max", "memory.current": 5},
        {"memory.max": 5},
        {"memory.max": "much", "memory.current": "?"},
        {"memory.max": 1 << 62, "memory.current": 5, "memory.stat": "nonsense\ninactive_file many"},
    ],
)
def test_without_a_limit_it_is_what_the_machine_has(files: dict[str, str], tmp_path: Path) -> None:
    total = psutil.virtual_memory().total
    assert total / 100 < available_memory(machine(tmp_path, "0::/\nodd line\n", **files)) <= total
    assert available_memory(tmp_path / "no such folder") <= total
