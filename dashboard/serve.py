"""`python -m shoal.dashboard.serve FLAGS`: Streamlit's own command with our script, which Ctrl-C ends quietly.

What it serves is in `main.py`; its settings are beside that, in `.streamlit/config.toml`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

MAIN = Path(__file__).parents[1] / "main.py"


def serve(flags: Sequence[str]) -> int:
    """Returns the exit code: 0 for Ctrl-C, which is how one ends a server."""
    from click.exceptions import Abort, ClickException
    from streamlit.web.cli import main

    try:
        main(["run", str(MAIN), *flags], prog_name="streamlit", standalone_mode=False)
    except (Abort, KeyboardInterrupt):
        return 0
    except ClickException as error:  # a flag that Streamlit does not know
        error.show()
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
