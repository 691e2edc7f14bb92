"""Nodes, networks, stragglers and failures as a person writes them: `10Gbit,0.5ms`, `5%,3`, `24h`."""

from __future__ import annotations

import math
import re

from shoal.engines.virtual import Failures, Network, Stragglers
from shoal.errors import ConfigError

NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
NETWORK = "10Gbit,0.5ms"
SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
BITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
NUMBER = re.compile(r"([\d.]+)\s*([a-zµ%]*)", re.IGNORECASE)


def nodes_of(text: str) -> tuple[int, ...]:
    """`1,2,4`, or `1,2,...,64` for all doublings in between."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found: list[int] = []
    for place, part in enumerate(parts):
        if part == "..." and found and place + 1 < len(parts) and parts[place + 1].isdigit():
            while 2 * found[-1] < int(parts[place + 1]):
                found.append(2 * found[-1])
        elif part.isdigit() and 1 <= int(part) <= 1024:
            found.append(int(part))
        else:
            raise ConfigError(f"Expected numbers of nodes from 1 to 1024 such as 1,2,4, got '{text}'. Write them so.")
    return tuple(sorted(set(found)))


def network_of(text: str) -> tuple[Network, float | None]:
    """Bandwidth and latency one way; the third, if there is one, is the server's time for each message."""
    bandwidth, latency, message = math.inf, 0.0, None
    parts = [part.strip() for part in text.split(",")]
    try:
        amount, unit = _split(parts[0])
        bandwidth = amount * BITS[unit] / 8
        latency = _seconds(parts[1]) if len(parts) > 1 else 0.0
        message = _seconds(parts[2]) if len(parts) > 2 else None
        if bandwidth <= 0 or len(parts) > 3:
            raise ValueError(text)
    except (KeyError, ValueError):
        raise ConfigError(
            f"Expected a network such as 10Gbit,0.5ms or 10Gbit,0.5ms,1ms (bandwidth, latency one way, the server's "
            f"time for a message), got '{text}'. Write it so."
        ) from None
    return Network(latency, bandwidth), message


def stragglers_of(text: str, spread: float) -> Stragglers:
    """`5%,3`: of a hundred nodes five take three times as long; work of all others varies by what was measured."""
    if not text:
        return Stragglers(spread)
    try:
        share, factor = (part.strip() for part in text.split(","))
        amount, unit = _split(share)
        part = amount / 100 if unit == "%" else amount
        if unit not in ("%", "") or not 0 <= part <= 1 or float(factor) < 1:
            raise ValueError(text)
        return Stragglers(spread, part, float(factor))
    except ValueError:
        raise ConfigError(
            f"Expected stragglers such as 5%,3 (five of a hundred nodes take three times as long), got '{text}'. "
            "Write them so."
        ) from None


def failures_of(text: str) -> Failures:
    """`24h`: how long a node lasts on average."""
    if not text:
        return Failures()
    try:
        return Failures(every=_seconds(text))
    except (KeyError, ValueError):
        raise ConfigError(f"Expected how long a node lasts, such as 24h or 90min, got '{text}'. Write it so.") from None


def _seconds(text: str) -> float:
    amount, unit = _split(text)
    return amount * SECONDS[unit]


def _split(text: str) -> tuple[float, str]:
    found = NUMBER.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    return float(found[1]), found[2].lower()
