"""Whether the web server was told to end, for answers that take long."""

from __future__ import annotations

import signal


def server_is_closing() -> bool:
    """Whether uvicorn was told to end. It then waits for open responses, and tells nobody; but its flag can be seen."""
    server = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return bool(getattr(server, "should_exit", False))
