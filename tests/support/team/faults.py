"""What can go wrong between a process and its database, for real: an answer that is lost on the way, a full disk."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from support.team.postgres import Postgres


class Lossy:
    """A way to a server's socket on which the answer to a commit can be lost: it was done, and nobody is told."""

    def __init__(self, server: Path, own: Path) -> None:
        self._server, self.folder = server, own
        self.lose = 0  # so many answers
        self.lost = 0
        own.mkdir()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(own / ".s.PGSQL.5432"))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._carry, args=(client,)))
            self._threads[-1].start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self._server / ".s.PGSQL.5432"))
            losing = False
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    try:
                        data = ready.recv(1 << 16)
                    except ConnectionError:
                        return
                    if not data or (ready is server and losing):
                        return
                    if ready is client and self.lose and b"COMMIT" in data:
                        self.lose, self.lost, losing = self.lose - 1, self.lost + 1, True
                    (server if ready is client else client).sendall(data)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def tiny_disk(postgres: Postgres, name: str, table: str) -> Iterator[tuple[Path, bool]]:
    """A table on a disk of its own; and whether one could be made, which needs to be root. Its size can be changed."""
    folder = postgres.folder / "disk"
    folder.mkdir()
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True
    ).returncode
    try:
        if mounted:
            owner = postgres.data.stat()
            os.chown(folder, owner.st_uid, owner.st_gid)
            postgres.execute(f"CREATE TABLESPACE tiny LOCATION '{folder}'")
            postgres.execute(f"ALTER TABLE shoal.{table} SET TABLESPACE tiny", name)
        yield folder, mounted
    finally:
        if mounted:
            postgres.execute(f"ALTER TABLE shoal.{table} SET TABLESPACE pg_default", name)
            postgres.execute("DROP TABLESPACE tiny")
            subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
