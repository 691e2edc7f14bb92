"""`pattern` is `re.compile` for the head of a module that every start imports: compiled when it is first used.

Those of our modules took 3 % of a small fit, which uses few of them. Type checkers see Python's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:
        """Has the methods of a compiled one; `re` itself keeps what was compiled."""

        def __init__(self, text: str | bytes, flags: int = 0) -> None:
            self._asked = text, flags

        def __getattr__(self, name: str) -> Any:
            found = getattr(re.compile(*self._asked), name)
            setattr(self, name, found)  # the next time it is at hand
            return found


__all__ = ["pattern"]
