"""The dashboard's server: the pages, our own routes beside them, and who may come in.

`shoal dashboard` starts it as `streamlit run main.py` does, with the settings in `.streamlit/config.toml` beside it.

What a page shows is in `dashboard/`; `dashboard/app.py` is the script that draws it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shoal.utils import THREAD_LIMITS

os.environ.update(THREAD_LIMITS)  # before NumPy is imported: many small matrices for many people, not one large one

import streamlit as st

from shoal.dashboard import server
from shoal.runs.scheduling import keep_going
from shoal.tracing import spans

QUEUE = 3.0  # seconds between two looks whether somebody cares for the runs that wait
HERE = Path(__file__).parent
sys.path[:] = [entry for entry in sys.path if entry != str(HERE)]  # from Streamlit; there, `import utils` means ours


@asynccontextmanager
async def lifespan(app: st.App) -> AsyncIterator[None]:
    """While the dashboard is there: runs that waited when the machine went down, or their scheduler, go on."""
    server.bound_connections()
    spans.begin("shoal-dashboard", print)
    going_on = (
        server.open_doors(), server.close_silent_ones(), server.give_back_memory(), _look_after_the_queue(),
    )  # fmt: skip
    tasks = [asyncio.create_task(part) for part in going_on]
    yield
    for task in tasks:
        task.cancel()
    server.close_doors()
    spans.end()


async def _look_after_the_queue() -> None:
    while True:
        await asyncio.to_thread(keep_going)
        await asyncio.sleep(QUEUE)


app = st.App(
    HERE / "dashboard" / "app.py",
    routes=server.routes(),
    middleware=server.middleware(),
    lifespan=lifespan,
    on_script_error=server.script_failed,
)
server.prepare()  # after st.App, which decides where Streamlit looks for its settings
