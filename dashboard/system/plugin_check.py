"""Which plug-ins are installed and whether they load; `python -m dashboard.plugin_check` prints that as JSON.

A process of its own loads them: what strangers wrote may be slow, large or broken, and a dashboard has to live on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from shoal import plugins
from shoal.dashboard.parts import wording
from shoal.errors import TrainingError

SECONDS = 30.0  # for all of them together


def found_here() -> list[dict[str, Any]]:
    """Each with its group, name and, if it does not load, why; loads them in this process."""
    found: list[dict[str, Any]] = []
    for group, word in plugins.WORDS.items():
        try:
            names = plugins.names(group)
        except TrainingError as error:
            found.append({"what": word, "name": "", "problem": wording.told(error)})
            continue
        for name in names:
            try:
                plugins.find(group, name)
                problem = ""
            except TrainingError as error:
                problem = wording.told(error)
            found.append({"what": word, "name": name, "problem": problem})
    return found


def check() -> list[dict[str, Any]]:
    """The same from another process; one entry says so if that did not come to an end."""
    command = [sys.executable, "-P", "-m", "shoal.dashboard.system.plugin_check"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS)
        answer = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        problem = f"Loading the installed plug-ins took longer than {SECONDS:g} seconds. Uninstall them one by one."
        return [{"what": "", "name": "", "problem": problem}]
    except (OSError, ValueError, IndexError):
        problem = "One of the installed plug-ins ended the process that loads them. Uninstall them one by one."
        return [{"what": "", "name": "", "problem": problem}]
    return list(answer)


if __name__ == "__main__":
    print("\n" + json.dumps(found_here()))
