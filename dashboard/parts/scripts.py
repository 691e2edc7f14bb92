"""The JavaScript of our own components as the one text that Streamlit takes; what they draw is said beside them."""

from __future__ import annotations

from pathlib import Path

TOOLS = Path(__file__).with_name("panel_tools.js")


def joined(folder: Path, *names: str) -> str:
    """The tools that all share, then these files of a folder; they see each other's names, so their order matters."""
    return "\n".join(path.read_text("utf-8") for path in (TOOLS, *(folder / f"{name}.js" for name in names)))
