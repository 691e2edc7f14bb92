"""Which nodes have which blocks, and what a worker does best next; pure logic, no call and no clock of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.lazy.classes import dataclass
from shoal.worker import Request

NEW = 0.5  # weight of the newest answer among those before


@dataclass(frozen=True)
class Errand:
    """What a worker was asked: the kind of request, whether others had the block, and when."""

    kind: str
    far: bool
    since: float


class Whereabouts:
    """Learns from answers. A block that another node has can be made again here, which takes longer than to wait for
    that node where only a few are left, and is worth it where many are.
    """

    def __init__(self) -> None:
        self._having: dict[str, set[str]] = {}  # the nodes that were asked about each block, by its place
        self._usual: dict[str, float] = {}  # seconds for an answer about a block that is there, by the kind of request
        self._making: float | None = None  # seconds more where it had to be made first

    def asked(self, request: Request, node: str, now: float) -> Errand:
        having = self._having.setdefault(place, set()) if (place := _place(request)) else {node}
        far = bool(having) and node not in having
        having.add(node)
        return Errand(type(request).__name__, far, now)

    def answered(self, asked: Errand, now: float) -> None:
        took, usual = now - asked.since, self._usual.get(asked.kind)
        if not asked.far:
            self._usual[asked.kind] = _smoothed(usual, took)
        elif usual is not None:
            self._making = _smoothed(self._making, max(0.0, took - usual))

    def choose(
        self, rank: int, nodes: Mapping[int, str], waiting: Sequence[Request], *, all_seen: bool
    ) -> int | None:  # fmt: skip
        """The number of the request that a worker does next; None: rather none of those that wait.

        First one about a block that its node has or that is meant for it, then one about a block that nobody has, then,
        when `all_seen`, the last of the others'; not what is meant for another. `nodes` are of those at work, by rank.
        """
        node, others = nodes[rank], set(nodes.values()) - {nodes[rank]}
        free, far = None, []
        for number, request in enumerate(waiting):
            meant = nodes.get(getattr(request, "owner", -1), "")
            having = {meant} if meant else self._having.get(_place(request), set())
            if node in having:
                return number
            if not having & others:
                free = number if free is None else free
            elif not meant:
                far.append(number)
        if free is not None or not all_seen or not far:
            return free
        hands = sum(other in others for other in nodes.values())
        return far[-1] if self._pays(type(waiting[far[-1]]).__name__, len(far), hands) else None

    def _pays(self, kind: str, left: int, hands: int) -> bool:
        """Whether a block is made here before others have come to it; it is tried once to know what it takes."""
        usual = self._usual.get(kind)
        return usual is None or self._making is None or usual * left / max(1, hands) > usual + self._making


def _place(request: Request) -> str:
    return str(getattr(request, "place", ""))


def _smoothed(before: float | None, seconds: float) -> float:
    return seconds if before is None else (1 - NEW) * before + NEW * seconds
