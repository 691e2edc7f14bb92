"""Which home this is, among those of a team: files of runs are in one, and hosts take the runs whose files they see.

The mark is made once, by whoever asks first, and is a file of the home: machines that share the home share the mark.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.home import home_mark_file, make_folder
from shoal.utils import disk_errors

LONGEST = 60  # letters of the name of a machine
_PLAIN = re.compile(rb"[^{].*-[0-9a-f]{8}\n")  # as older versions wrote it


def home_mark() -> str:
    """For people too: it begins with the name of the machine that made it. DamagedFile if it cannot be told."""
    path = home_mark_file()
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    import platform  # takes a while, and is needed once

    with disk_errors("the home"):
        make_folder(path.parent)
        own = path.with_name(f"{path.name}-{os.urandom(8).hex()}.tmp")
        sealed.write(own, {"home": f"{platform.node()[:LONGEST]}-{os.urandom(4).hex()}"}, path.name)
        _put(own, path)
    return _read(path)


def _read(path: Path) -> str:
    """With another mark hosts would pass the jobs of this home by, and nobody would know why they wait."""
    data = path.read_bytes()
    if _PLAIN.fullmatch(data):
        return data.decode("utf-8", "replace").strip()
    try:
        return str(sealed.proven(data, str(path), path.name)["home"])
    except DamagedFile as damage:
        raise DamagedFile(
            f"{damage.message} It is the mark by which hosts know the jobs of this home. Put it back from a backup; or "
            "remove it, by which the home gets another one, and start what waits in the queue again.",
            path=str(path),
        ) from None


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
