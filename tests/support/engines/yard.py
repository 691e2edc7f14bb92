"""A Ray cluster in a process of its own, told by lines what to do: `python -m support.engines.yard FOLDER`.

A head without cores and two nodes of one core each, which keep blocks in homes of their own, `home-N`. It prints its address, then an answer to each of:
`join` (a node more), `cut N` (kill -9 of the N-th node's raylet), `drain N` (take it away in order, as an autoscaler does),
`mend` (two nodes, those that are there or new ones, and the head knows no others).
It ends, and all of it with it, when its input does.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2]
PATIENCE = 240.0  # seconds for a node to start; Ray itself gives it 30, which a busy machine exceeds


class Yard:
    """The process, as tests see it."""

    def __init__(self, folder: Path, token: str) -> None:
        environment = {
            **os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": str(TESTS),
        }  # fmt: skip
        self.folder = folder
        self._errors = (folder / "errors.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.engines.yard", str(folder)], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        try:
            self.address = self._answer()
        except BaseException:
            self.close()
            raise

    def say(self, *words: object) -> str:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self._errors.seek(0), self._errors.read())[1]
        return line.strip()

    def close(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
        self._errors.close()


def be_patient() -> None:
    """Nodes get as long as they take: Ray has no setting for it."""
    from ray._private import services
    from ray.exceptions import RayError

    look, wait = services.get_node, services.wait_for_node

    def get_node(*asked: Any) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return look(*asked)
            except (RuntimeError, RayError):  # not registered yet, or the head is too busy to say so
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    services.get_node = get_node
    services.wait_for_node = lambda head, store, timeout=PATIENCE: wait(head, store, PATIENCE)


def main(folder: str) -> None:
    os.environ["RAY_TMPDIR"] = folder
    from ray.cluster_utils import Cluster

    be_patient()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Ray prints is no answer
    os.makedirs(os.path.join(folder, "ray"))
    idle = {"include_log_monitor": False, "no_monitor": True}  # nobody here reads logs on the way or scales by itself
    head = {"num_cpus": 0, "include_dashboard": False, **idle}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    nodes: list[Any] = []

    homes = itertools.count()

    def join() -> None:
        apart = {"SHOAL_HOME": os.path.join(folder, f"home-{next(homes)}"), "SHOAL_OWN_BLOCKS": "1"}
        nodes.append(cluster.add_node(num_cpus=1, include_dashboard=False, env_vars=apart))

    for _ in range(2):
        join()
    print(cluster.address, file=answers, flush=True)
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "cut":
            nodes[int(rest[0])].kill_raylet()
            cluster.worker_nodes.discard(nodes.pop(int(rest[0])))
        elif command == "drain":
            leaving = nodes.pop(int(rest[0]))
            drain(cluster.address, leaving.node_id)
            cluster.worker_nodes.discard(leaving)
        elif command == "join":
            join()
        elif command == "mend":
            for _ in range(2 - len(nodes)):
                join()
            wait_for_nodes(cluster.address, {node.node_id for node in nodes})
        print("done", len(nodes), file=answers, flush=True)
    cluster.shutdown()


def wait_for_nodes(address: str, expected: set[str]) -> None:
    """Until the head has noticed which nodes are gone: it would place actors on them."""
    from ray._raylet import GcsClient
    from ray.core.generated.gcs_pb2 import GcsNodeInfo

    head: Any = GcsClient(address=address)
    deadline = time.monotonic() + PATIENCE
    while True:
        known = head.get_all_node_info().items()
        alive = {
            node.hex() for node, info in known if info.state == GcsNodeInfo.ALIVE and info.resources_total.get("CPU")
        }
        if alive == expected:
            return
        assert time.monotonic() < deadline, f"expected the nodes {expected}, the head knows {alive}"
        time.sleep(0.1)


def drain(address: str, node: str) -> None:
    """The two calls of Ray's autoscaler for a machine that its owner wants back: nothing new is placed, then it goes."""
    from ray._raylet import GcsClient
    from ray.core.generated.autoscaler_pb2 import DrainNodeReason

    head: Any = GcsClient(address=address)
    reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why = head.drain_node(node, reason, "taken back", 0)
    assert accepted, why
    assert head.drain_nodes([bytes.fromhex(node)])


if __name__ == "__main__":
    main(sys.argv[1])
