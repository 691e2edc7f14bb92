"""`shoal serve` in a process of its own, and what a program that asks it sees."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONG = 120.0  # seconds; the machine may be busy


@dataclass
class PredictionServer:
    process: subprocess.Popen[str]
    port: int
    token: str

    def ask(
        self, path: str, body: Any = None, kind: str = "application/json", token: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            said = {name.replace("_", "-"): value for name, value in headers.items()}
            given = self.token if token is None else token
            said |= {"Authorization": f"Bearer {given}"} if given else {}
            said |= {"Content-Type": kind} if data is not None else {}
            connection.request("GET" if data is None else "POST", path, data, said)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def got(self, path: str, body: Any = None, status: int = 200, **more: str) -> dict[str, Any]:
        found, _, data = self.ask(path, body, **more)
        assert found == status, data
        return dict(json.loads(data))

    def heard(self, pattern: str) -> str:
        """The next line that it prints of this kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"the server ended without saying {pattern}")

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(LONG)


@contextlib.contextmanager
def serving(home: Path, *words: str) -> Iterator[PredictionServer]:
    """A server with its own token, at a port that the system chooses."""
    command = [sys.executable, "-P", "-m", "shoal.cli.app", "serve", *words, "--port", "0"]
    environment = {**os.environ, "SHOAL_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        found = PredictionServer(process, 0, "")
        try:
            address = re.search(r":(\d+)/predict", found.heard("/predict"))
            assert address is not None
            found.port = int(address[1])
            if "--no-token" not in words:
                found.token = found.heard("token of this process").split()[-1]
            yield found
        finally:
            if process.poll() is None:
                found.end()
