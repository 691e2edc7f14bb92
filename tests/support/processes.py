"""What a process was started as, also when it ends at that very moment."""

from __future__ import annotations

import psutil


def command_of(process: psutil.Process) -> str:
    """Its command line; empty for one that is gone, or dead and not yet buried."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
