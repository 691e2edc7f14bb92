"""`shoal dashboard`: what is said before a server is started; that it starts is seen in `tests/install`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def dashboard(home: Path, port: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal.cli.app", "dashboard", "--port", port]
    environment = {**os.environ, "SHOAL_HOME": str(home)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_a_port_that_is_taken_is_said_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = dashboard(tmp_path / "home", str(port))
    assert done.returncode == 1
    assert f"Expected port {port} to be free for the dashboard, got: Address already in use." in done.stderr
    assert "Choose another one with --port; 0 takes any that is free." in done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_what_is_no_port_is_said(port: str, tmp_path: Path) -> None:
    assert f"Expected a port from 0 to 65535, got {port}." in dashboard(tmp_path, port).stderr
