"""PyTorch where it is installed, or a plain sentence."""

from __future__ import annotations

import importlib.util
import shlex
import sys

from shoal.errors import ConfigError


def need_torch() -> None:
    """Refuse work that needs PyTorch where there is none; nothing of it is imported here."""
    missing = [name for name in ("torch", "safetensors") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Networks are trained by PyTorch, which is not installed here (missing: {', '.join(missing)}). "
            f"Install it with: {shlex.quote(sys.executable)} -m pip install 'shoal[torch]'"
        )
