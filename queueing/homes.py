"""Which home this is, among those of a team: files of runs are in one, and hosts take the runs whose files they see.

The mark is made once, by whoever asks first, and is a file of the home: machines that share the home share the mark.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from shoal.home import home_mark_file, make_folder
from shoal.utils import disk_errors, write_atomically

LONGEST = 60  # letters of the name of a machine


def home_mark() -> str:
    """For people too: it begins with the name of the machine that made it."""
    path = home_mark_file()
    with contextlib.suppress(FileNotFoundError):
        return path.read_text().strip()
    import platform  # takes a while, and is needed once

    with disk_errors("the home"):
        make_folder(path.parent)
        own = path.with_name(f"{path.name}-{os.urandom(8).hex()}.tmp")
        write_atomically(own, f"{platform.node()[:LONGEST]}-{os.urandom(4).hex()}\n".encode())
        _put(own, path)
    return path.read_text().strip()


def _put(own: Path, path: Path) -> None:
    """Under its name, unless somebody was faster."""
    try:
        os.link(own, path)
    except FileExistsError:
        pass
    except OSError:  # a disk that has no links
        if not path.exists():
            os.replace(own, path)
    own.unlink(missing_ok=True)
