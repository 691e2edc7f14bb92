"""`python -m benchmarks.scaling`: compare, and write docs/scaling.md."""

from __future__ import annotations

from benchmarks.scaling.comparison import main

if __name__ == "__main__":
    main()
