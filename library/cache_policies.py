"""Which cached things go first when space is short: the oldest, the largest, those that nobody has opened for longest,
or as a plug-in says. What may go at all, and how it goes, is in `cleaning`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shoal import plugins
from shoal.errors import ConfigError
from shoal.home import MANIFEST
from shoal.lazy.classes import dataclass
from shoal.library.inventory import Item


@dataclass(frozen=True)
class CachedItem:
    """One thing that may go: what it is, what it takes, and when it was last changed and opened, seconds since 1970.

    When it was opened is as exact as the file system notes it: to a day, on most, or as `changed` where it does not.
    """

    kind: str  # data, shards, ...
    name: str  # of its folder
    bytes: int
    changed: float
    opened: float


class CachePolicy:
    """An order in which cached things go; made without arguments."""

    def order(self, items: Sequence[CachedItem]) -> Sequence[CachedItem]:
        """The same things, those first that are to go first; those that it leaves out stay."""
        raise NotImplementedError


BUILT_IN: dict[str, Callable[[CachedItem], float]] = {
    "oldest": lambda item: item.changed,
    "largest": lambda item: -item.bytes,
    "unopened": lambda item: item.opened,
}


def first_to_go(items: Iterable[Item], first: str, enough: int) -> list[Item]:
    """Of things that may go as many as it takes to free `enough` bytes, by the policy of that name."""
    known = {_described(item): item for item in items}
    chosen: list[Item] = []
    for one in _ordered(list(known), first):
        if sum(item.bytes for item in chosen) >= enough:
            break
        chosen.append(known[one])
    return chosen


def _ordered(items: list[CachedItem], first: str) -> Sequence[CachedItem]:
    if key := BUILT_IN.get(first):
        return sorted(items, key=key)
    policy: CachePolicy = plugins.make(plugins.CACHE_POLICIES, first, CachePolicy, BUILT_IN)
    try:
        found = list(dict.fromkeys(policy.order(tuple(items))))
        strange = [one for one in found if one not in items]
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The cache policy '{first}' failed ({type(error).__name__}: {error}), so nothing is removed. Correct it, "
            f"or take one of {', '.join(BUILT_IN)}."
        ) from error
    if strange:
        raise ConfigError(
            f"Expected the cache policy '{first}' to put the things in order that it was given, got {strange[0]!r}. "
            f"Nothing is removed. Correct it, or take one of {', '.join(BUILT_IN)}."
        )
    return found


def _described(item: Item) -> CachedItem:
    try:
        opened = (item.path / MANIFEST).stat().st_atime
    except OSError:
        opened = item.changed
    return CachedItem(item.kind, item.path.name, item.bytes, item.changed, max(opened, item.changed))
