"""`shoal dashboard`: what is said before a server is started, and how it ends; what it serves is seen elsewhere."""

from __future__ import annotations

import os
import signal
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


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shoal.cli.app", "dashboard", "--port", "0", "--home", str(tmp_path)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert running.stdout is not None
        said = next(line for line in running.stdout if "http://" in line)
        running.send_signal(signal.SIGINT)
        said += running.communicate(timeout=60)[0]
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0
    assert not {"Aborted", "Traceback", "Error"} & set(said.replace("!", " ").replace(":", " ").split()), said


def test_a_flag_that_streamlit_does_not_know_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shoal.cli.app", "dashboard", "--port", "0", "--home", str(tmp_path)]
    done = subprocess.run([*command, "--", "--server.nothing", "1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--server.nothing" in done.stderr
    assert "Traceback" not in done.stderr
