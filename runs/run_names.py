"""Names of runs are in the order in which they were given, whatever the clock says."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from datetime import datetime, timedelta

STAMP = "%Y%m%d-%H%M%S"  # how names that begin with the time write it


def after_all(name: str, others: Iterable[str], form: re.Pattern[str]) -> str:
    """The name, or the next one behind all `others` of this form: a time and a number of as many digits as it has.

    The clock may have been put back, and it is in every autumn.
    """
    newest = max((other for other in others if form.fullmatch(other)), default="")
    if name > newest or not (found := form.fullmatch(newest)):
        return name
    number = int(found[2]) + 1
    if number < 10 ** len(found[2]):
        return f"{found[1]}-{number:0{len(found[2])}d}"
    with contextlib.suppress(ValueError, OverflowError):  # digits that are no time
        later = datetime.strptime(found[1], STAMP) + timedelta(seconds=1)
        return f"{later:{STAMP}}-{0:0{len(found[2])}d}"
    return name
