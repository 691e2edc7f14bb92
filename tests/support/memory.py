"""How much memory a tree of processes has of its own; mapped files belong to the page cache."""

from __future__ import annotations

from pathlib import Path

import psutil

OWN_MEMORY = ("Pss_Anon:", "Pss_Shmem:")  # pages of mapped files belong to the page cache


def tree_memory(root: psutil.Process) -> int:
    """Pss_Anon + Pss_Shmem over a process and its descendants, in bytes."""
    try:
        return sum(own_memory(process.pid) for process in (root, *root.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


def own_memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended between the listing and the look
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(OWN_MEMORY))
