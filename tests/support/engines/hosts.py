"""Three machines on one kernel: network namespaces with addresses of their own, each with its own /tmp, /dev/shm and disk.

They have nothing in common but a bridge and what is installed. Needs root; everything is gone when it is closed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.engines.wire import Wire

Link = tuple[float, float]  # seconds each way, bits a second
TESTS = Path(__file__).parents[2]
DISK = "/run/shoal-disk"  # the same path on each, and another disk
WAIT = 90.0  # seconds for anything to happen
MOUNTS = (  # of a folder of its own as its disk
    "mount --make-rprivate / && mkdir -p {disk} && mount --bind {folder} {disk} && "
    "mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && echo && exec cat"
)


def until(happened: Callable[[], Any], what: str) -> float:
    """Seconds until it has."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < WAIT, f"waited {WAIT:.0f} s for: {what}"
        time.sleep(0.1)
    return time.monotonic() - began


class Host:
    """One machine: a process that keeps its namespaces, and what runs in them."""

    def __init__(self, name: str, number: int, bridge: str, token: str, link: Link | None) -> None:
        self.name, self.address = f"{name}{number}", f"10.77.83.{number + 1}"
        self.cable = f"{self.name}c"  # its end at the bridge
        self.environment = {
            **os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_USAGE_STATS_ENABLED": "0",
            "SHOAL_HOME": f"{DISK}/home", "HOME": DISK, "NETRC": "/nowhere", "PYTHONPATH": str(TESTS),
        }  # fmt: skip
        self.started: list[subprocess.Popen[str]] = []
        call("ip", "netns", "add", self.name)
        self.wire = self._laid(link) if link else None
        if self.wire is None:
            call("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        call("ip", "link", "set", self.cable, "master", bridge, "up")
        way = "route add default via 10.77.83.254"  # to nowhere: Ray finds its own address by it
        for words in (f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up", way):
            call("ip", "-n", self.name, *words.split())
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir="/var/tmp"))
        mounts = MOUNTS.format(disk=DISK, folder=self.folder)
        kept = ["ip", "netns", "exec", self.name, "unshare", "--mount", "sh", "-c", mounts]
        self.keeper = subprocess.Popen(kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout is not None
        self.keeper.stdout.readline()

    def _laid(self, link: Link) -> Wire:
        inside = f"{self.name}e"
        wire = Wire((self.cable, inside), *link)
        call("ip", "link", "set", inside, "netns", self.name, "name", "eth0")
        return wire

    def start(self, *words: object, **more: Any) -> subprocess.Popen[str]:
        inside = ["nsenter", "-t", self.keeper.pid, "-m", "-n", *words]
        self.started.append(
            subprocess.Popen([str(word) for word in inside], env=self.environment, text=True, start_new_session=True,
                             stdin=subprocess.DEVNULL, **more)
        )  # fmt: skip
        return self.started[-1]

    def run(self, *words: object) -> str:
        process = self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=2 * WAIT)
        assert process.returncode == 0, f"{words}: {out[-1000:]}{err[-2000:]}"
        return out

    def shoal(self, *words: object) -> str:
        return self.run(sys.executable, "-m", "shoal.cli.app", *words)

    def ray(self, *words: object) -> None:
        self.run(Path(sys.executable).parent / "ray", "start", "--disable-usage-stats", f"--node-ip-address={self.address}",
                 "--object-store-memory=100000000", *words)  # fmt: skip

    def disk(self, *parts: str) -> Path:
        """What is on its disk, as seen from outside."""
        return self.folder.joinpath(*parts)

    def processes(self) -> list[int]:
        return [int(pid) for pid in call("ip", "netns", "pids", self.name).split()]

    def close(self) -> None:
        for pid in self.processes():
            if pid != self.keeper.pid:
                subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)
        for process in self.started:
            process.wait()
        self.keeper.communicate("", timeout=WAIT)
        if self.wire is not None:
            self.wire.close()
        call("ip", "netns", "del", self.name)
        shutil.rmtree(self.folder, ignore_errors=True)


class Hosts:
    """A head without cores that asks, and two nodes of one core; `link` is what their cables are like."""

    def __init__(self, link: Link | None = None) -> None:
        self.name = f"sh{secrets.token_hex(2)}"
        call("ip", "link", "add", self.name, "type", "bridge")
        call("ip", "link", "set", self.name, "up")
        self.all: list[Host] = []
        token = secrets.token_hex(16)
        for number in range(3):
            self.all.append(Host(self.name, number, self.name, token, link if number else None))
        self.head, *self.nodes = self.all
        self.address = f"{self.head.address}:6379"

    def start(self) -> None:
        self.head.ray("--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false")
        for node in self.nodes:
            self.join(node)

    def join(self, node: Host) -> None:
        node.ray(f"--address={self.address}", "--num-cpus=1")

    def cut(self, node: Host, *, back: bool = False) -> None:
        """Pull its cable, without a word to anybody; or put it in again."""
        call("ip", "link", "set", node.cable, "up" if back else "down")

    def close(self) -> None:
        for host in self.all:
            host.close()
        call("ip", "link", "del", self.name)


def call(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


def can_be_made() -> bool:
    return (
        os.geteuid() == 0 and not subprocess.run(["which", "ip", "nsenter", "unshare"], capture_output=True).returncode
    )


def serve(words: Sequence[str]) -> None:
    """`python -m support.engines.hosts FILE ADDRESS GUEST...`: the file behind http://ADDRESS:8000/, by ranges.

    No guest is answered before all of them have asked.
    """
    from support.engines.shelf import Shelf, serving

    path, address, *guests = words
    shelf = Shelf()
    shelf.guests.update(guests)
    shelf.put("table.csv", Path(path).read_bytes())
    with serving(shelf, address, 8000):
        time.sleep(3600)


if __name__ == "__main__":
    serve(sys.argv[1:])
