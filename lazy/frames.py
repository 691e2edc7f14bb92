"""pandas, loaded with the first table that is made: its import is most of what a page's first visit would wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["pd"]

if TYPE_CHECKING:
    import pandas as pd
else:

    class _Pandas:
        def __getattr__(self, name: str) -> Any:
            import pandas

            return getattr(pandas, name)

    pd = _Pandas()
