"""A real PostgreSQL of one's own: Debian's programs, a temporary folder, a socket in it, gone with the tests.

A test takes the fixture `empty_database` (an address) or `team_database` (made ready, and named by SHOAL_DATABASE).
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.database.address import VARIABLE
from shoal.database.connections import close_all, database
from shoal.database.migrations import upgrade

PASSWORD = "s3cret-Of-Tests"
PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin/postgres"), default=None, key=lambda path: int(path.parts[4]))
STARTING = 60.0  # seconds; the machine may be busy
# Tests kill processes, not machines: nothing has to be on the disk. But what was acknowledged has left the process.
FAST = {
    "fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "shared_buffers": "32MB",
    "max_connections": "60", "listen_addresses": "", "log_min_messages": "warning", "autovacuum": "off",
}  # fmt: skip


KEEPER = """
import signal, subprocess, sys

server = None
for line in sys.stdin:
    if line.strip() == "start":
        server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
    elif server is not None:
        server.send_signal(signal.Signals[line.strip()])
        server.wait()
        server = None
    print("done", flush=True)
if server is not None:
    server.send_signal(signal.SIGQUIT)
    server.wait()
"""  # the server goes when this process does, however that ends; and one that a test starts again is no child of that test


class Postgres:
    """One server: started, stopped and started again at will. It refuses to be root, so as root it is somebody else."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self._numbers = itertools.count(1)
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            owner = next(pwd.getpwnam(name) for name in ("postgres", "nobody") if _is_user(name))
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            self._as_user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "-D", str(self.data), "-U", "shoal", "--pwfile", str(secret), "-A", "scram-sha-256", "--no-sync",
            "--no-locale", "-E", "UTF8", "--no-instructions",
        )  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.writelines(f"{name} = '{value}'\n" for name, value in FAST.items())
            settings.write(f"unix_socket_directories = '{folder}'\n")
        with (folder / "log").open("ab") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-c", KEEPER, *self._as_user, str(PROGRAMS), "-D", str(self.data)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
            )  # fmt: skip

    def address(self, name: str = "postgres") -> str:
        return f"postgresql://shoal:{PASSWORD}@/{name}?host={self.folder}"

    def start(self) -> None:
        self._tell("start")
        deadline = time.monotonic() + STARTING
        while not self._answers():
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self, mode: str = "INT") -> None:
        """INT: fast, connections are cut; QUIT: at once, as by a crash."""
        self._tell(f"SIG{mode}")

    def close(self) -> None:
        self._keeper.communicate(timeout=STARTING)

    def _tell(self, word: str) -> None:
        assert self._keeper.stdin
        assert self._keeper.stdout
        self._keeper.stdin.write(f"{word}\n")
        self._keeper.stdin.flush()
        self._keeper.stdout.readline()

    def execute(self, statement: str, name: str = "postgres") -> list[tuple[Any, ...]]:
        """As the server's own administrator, over a connection of its own."""
        import psycopg

        with psycopg.connect(self.address(name), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def cut(self, name: str) -> int:
        """End all other connections to a database, as an administrator would; how many there were."""
        found = self.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'", name,
        )  # fmt: skip
        return len(found)

    def new_database(self) -> str:
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        assert PROGRAMS is not None
        command = [*self._as_user, str(PROGRAMS.with_name(program)), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def why_missing() -> str:
    """Why there is no server here; empty where there can be one."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'shoal[postgres]'"
    return "" if PROGRAMS else "PostgreSQL is not installed (Debian: postgresql)"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the tests of this process."""
    if why := why_missing():
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="shoal-postgres-"))
    try:
        server = Postgres(folder)
        server.start()
        yield server
        server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Outage:
    """The server stopped for a while, and there again afterwards."""

    def __init__(self, server: Postgres) -> None:
        self._server, self._stopped = server, False

    def begin(self) -> None:
        self._server.stop()
        self._stopped = True

    def end(self) -> None:
        if self._stopped:
            self._server.start()
            self._stopped = False


@pytest.fixture
def outage(postgres: Postgres) -> Iterator[Outage]:
    found = Outage(postgres)
    yield found
    found.end()


@pytest.fixture
def empty_database(postgres: Postgres) -> Iterator[str]:
    """The name of a database without tables; see `Postgres.address`."""
    name = postgres.new_database()
    yield name
    close_all()
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def team_database(postgres: Postgres, empty_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a database that is ready, and that SHOAL_DATABASE names for this process and those it starts."""
    monkeypatch.setenv(VARIABLE, postgres.address(empty_database))
    with database().connection(checked=False) as connection:
        upgrade(connection)
    return empty_database
