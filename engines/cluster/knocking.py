"""Whether a cluster turns away whoever has no token: a process that imports Ray to ask takes a second. It says yes only
where that was the answer; anything else it does not judge."""

from __future__ import annotations

from shoal.engines.cluster.calls import call

FIRST = b"/ray.rpc.NodeInfoGcsService/GetClusterId"  # the first call of everybody who joins; it changes nothing
REFUSED = (b"grpc-status\x0216", b"InvalidAuthToken")  # 16: unauthenticated


def turns_away(host: str, port: int, seconds: float) -> bool:
    """Whether the answer to a call without a token is that it needs one."""
    ending = call((host, port), FIRST, b"", seconds)
    return all(word in ending for word in REFUSED)
