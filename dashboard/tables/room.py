"""Room on the disk for all uploads under way together: what is kept for one is not promised to another."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path


class Room:
    """What a folder's disk has left for uploads, `spare` bytes aside; used by the threads of one server.

    An upload that says how large it is has that much kept free until it has come; one that does not is counted as it
    comes. Either finds out before it is written that there is no room.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._awaited: dict[object, int] = {}  # bytes that are still to come, of each upload

    def left(self, folder: Path, spare: int) -> int:
        with self._lock:
            return self._left(folder, spare)

    def _left(self, folder: Path, spare: int) -> int:
        while not folder.exists():
            folder = folder.parent
        return max(0, shutil.disk_usage(folder).free - spare - sum(self._awaited.values()))

    def keep(self, upload: object, size: int, folder: Path, spare: int) -> bool:
        """Whether there is room for the whole of an upload, which is then kept for it until `give_back`."""
        with self._lock:
            fits = size <= self._left(folder, spare)
            if fits:
                self._awaited[upload] = size
            return fits

    def take(self, upload: object, size: int, folder: Path, spare: int) -> bool:
        """Whether the next bytes of an upload may be written: out of what was kept for it, else of what is left."""
        with self._lock:
            kept = self._awaited.get(upload, 0)
            fits = size <= kept or size - kept <= self._left(folder, spare)
            if fits:
                self._awaited[upload] = max(0, kept - size)
            return fits

    def give_back(self, upload: object) -> None:
        with self._lock:
            self._awaited.pop(upload, None)
