"""Hosts as network namespaces need root and two minutes: they are for `make cluster-test`, not for `make test`."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("SHOAL_HOSTS") else ["test_hosts.py"]
