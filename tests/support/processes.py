"""What the system says of processes: how they were started, and how much memory a tree of them has of its own."""

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


def command_of(process: psutil.Process) -> str:
    """Its command line; empty for one that is gone, or dead and not yet buried."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
