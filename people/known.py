"""What a server knows of people: the store as it was last seen, so that a request costs one look at a file."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping

from shoal.errors import TrainingError
from shoal.home import people_file
from shoal.people import accounts
from shoal.people.records import REMOVED, Colleague
from shoal.people.sqlite_people import mark_of


class KnownPeople:
    """Those who have an account, by name. `broken` says why they cannot be read; then nobody is let in."""

    def __init__(self) -> None:
        self._seen: Hashable = None
        self._known: Mapping[str, Colleague] = {}
        self._lock = threading.Lock()
        self.broken = ""

    def everybody(self) -> Mapping[str, Colleague]:
        path = people_file()
        mark = (path, mark_of(path))
        if self._seen != mark:
            with self._lock:
                self._look(mark)
        return self._known

    @property
    def are_there(self) -> bool:
        return bool(self.everybody()) or bool(self.broken)

    def active(self, name: str) -> Colleague | None:
        found = self.everybody().get(name)
        return found if found is not None and found.is_active else None

    def _look(self, mark: Hashable) -> None:
        try:
            found, self.broken = accounts.everybody(), ""
        except (TrainingError, OSError) as error:
            found, self.broken = [], f"The accounts cannot be read. {error}"
        self._known = {account.name: account for account in found if account.state != REMOVED}
        self._seen = mark
