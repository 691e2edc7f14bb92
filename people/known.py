"""What a server knows of people: the store as it was last seen, so that a request costs a look at a file, or less.

A database is looked at by a thread beside, at most ten times a second, and a server that does not answer keeps nobody
waiting for long. While it is away those who are in go on for half a minute, and nobody comes in (`look` tells).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Mapping

from shoal.database.plain_errors import DatabaseAway
from shoal.errors import TrainingError
from shoal.people import accounts, place
from shoal.people.records import TeamMember

FRESH = 0.1  # seconds for which what a database said counts as now
PATIENCE = 2.0  # seconds that a request waits for a database, once; those after it do not wait for the same look
GRACE = 30.0  # seconds for which those who are in stay so while the database cannot say whether they may

log = logging.getLogger("shoal")


class KnownPeople:
    """Those who have an account, by name. `broken` says why they cannot be read; then nobody is let in.

    `away` says why the database could not be asked at the last look; what was known before counts for a while.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # of one look at a time
        self._starting = threading.Lock()
        self._beside: threading.Thread | None = None
        self._forget()

    def _forget(self) -> None:
        self._where: Hashable = None
        self._seen: Hashable = None
        self._known: Mapping[str, TeamMember] = {}
        self._looked = self._answered = -math.inf  # when a look last ended; when one last was answered
        self.broken = self.away = ""

    def everybody(self) -> Mapping[str, TeamMember]:
        if self._where != place.where() or not place.may_wait():
            self.look()
        elif self._clock() - self._looked > FRESH:
            self._look_beside()
        if self._known or self._answered == -math.inf:  # where nobody had an account, all is as before
            self._expire()
        return self._known

    @property
    def are_there(self) -> bool:
        return bool(self.everybody()) or bool(self.broken)

    def active(self, name: str) -> TeamMember | None:
        found = self.everybody().get(name)
        return found if found is not None and found.is_active else None

    def look(self) -> None:
        """See how it is now, however long that takes."""
        with self._lock:
            if self._where != (where := place.where()):
                self._forget()
            began = self._clock()
            try:
                self._compare(place.mark())
                self._answered, self.away = began, ""
            except DatabaseAway as error:
                if not self.away:
                    log.warning("The accounts cannot be looked at. %s", error)
                self.away = str(error)
            except (TrainingError, OSError) as error:
                self._break(error)
            self._where, self._looked = where, self._clock()

    def _compare(self, mark: Hashable) -> None:
        if mark == self._seen:
            return
        try:
            found = accounts.everybody()
        except DatabaseAway:
            raise
        except (TrainingError, OSError) as error:
            self._break(error)
        else:
            self._known, self.broken = {account.name: account for account in found}, ""
        self._seen = mark

    def _break(self, error: TrainingError | OSError) -> None:
        said = f"The accounts cannot be read. {error}"
        if said != self.broken:
            log.warning("%s", said)
        self._known, self.broken, self._seen = {}, said, None

    def _look_beside(self) -> None:
        with self._starting:
            looking = self._beside
            if looking is None or not looking.is_alive():
                self._beside = looking = threading.Thread(target=self.look, name="shoal-people", daemon=True)
                looking.start()
            elif self._answered > -math.inf:
                return  # somebody has waited for it already
        looking.join(PATIENCE)

    def _expire(self) -> None:
        if not self.broken and self._clock() - self._answered > GRACE:
            self._known, self._seen = {}, None
            self.broken = f"The accounts cannot be read. {self.away or 'The database does not answer.'}"
