"""The commands about disk space: what takes it and how to get it back; what may go is decided in `library`."""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import TYPE_CHECKING

from shoal.cli.flags import Add
from shoal.cli.printing import print_json, table
from shoal.errors import ConfigError
from shoal.words import file_size, listed

if TYPE_CHECKING:
    from shoal.library.cleaning import CleaningPlan, Criteria

EXPLAINED = "data, shards, uploads, samples, jobs, checkpoints, runs, searches, archives or leftovers; see 'shoal disk'"


def add_commands(add: Add) -> None:
    """The subcommands, each with its function."""
    disk = add("disk", help="what takes disk space under SHOAL_HOME")
    disk.add_argument("--json", action="store_true", help="print one JSON object")
    disk.set_defaults(command=_disk)
    clean = add("clean", help="free disk space; what a run needs stays")
    clean.add_argument("kind", metavar="KIND", help=EXPLAINED)
    clean.add_argument("--older-than", type=float, metavar="DAYS", help="only what has not changed for so many days")
    clean.add_argument("--unused", action="store_true", help="data and uploads: only what no run or model refers to")
    clean.add_argument("--enough", metavar="SIZE", help="only as many as free so much, such as 5GB or 500MB")
    clean.add_argument(
        "--first", metavar="POLICY", default="oldest",
        help="with --enough: which go first: oldest, largest, unopened, or a plug-in's policy",
    )  # fmt: skip
    clean.add_argument("--yes", action="store_true", help="do not ask")
    clean.set_defaults(command=_clean)


def _disk(chosen: argparse.Namespace) -> None:
    from shoal.home import home
    from shoal.library.inventory import survey

    found = survey()
    total, unread = sum(use.bytes for use in found), [told for use in found for told in use.unread]
    if chosen.json:
        kinds = {use.kind.name: {"count": use.count, "bytes": use.bytes, "oldest": use.oldest} for use in found}
        print_json({"home": str(home()), "bytes": total, "kinds": kinds, "unread": unread})
        return
    rows = [(u.kind.name, f"{u.count:,}", file_size(u.bytes), _day(u.oldest), u.kind.purpose) for u in found]
    table(
        ("kind", "count", "size", "oldest", ""), [*rows, ("total", "", file_size(total), "", str(home()))], right={1, 2}
    )
    if unread:
        print(f"\nNot counted, since nobody can read it: {listed(unread, 3)}. Check the permissions and the disk.")
    print("\nFree some with: shoal clean KIND [--older-than DAYS] [--enough 5GB]")


def _day(at: float | None) -> str:
    return "-" if at is None else time.strftime("%Y-%m-%d", time.localtime(at))


def _clean(chosen: argparse.Namespace) -> int:
    from shoal.library.cleaning import Criteria, clean, plan
    from shoal.library.kinds import counted, kept_in_words, kind_of

    kind = kind_of(chosen.kind)
    enough = None if chosen.enough is None else _bytes(chosen.enough)
    choice = Criteria(chosen.older_than, chosen.unused, enough, chosen.first)
    _check(choice, kind.by_use)
    wanted = plan(kind.name, choice)
    if not wanted.items:
        print(f"Nothing to remove. {kept_in_words(wanted.kept)}".rstrip())
        return 0
    if not chosen.yes and not _agreed(wanted):
        return 1
    done = clean(kind.name, choice)
    print(f"Removed {counted(kind, done.count)}; {file_size(done.bytes)} are free again.")
    if done.kept:
        print(kept_in_words(done.kept))
    return 0


def _bytes(text: str) -> int:
    """A size as people write it: 5GB, 500 MB, 1e9."""
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    try:
        return int(float(found[1]) * 1000 ** " kmgt".index(found[2] or " ")) if found else int("")
    except ValueError:
        raise ConfigError(f"Expected --enough to be a size such as 5GB or 500MB, got '{text}'. Correct it.") from None


def _check(choice: Criteria, by_use: bool) -> None:
    if choice.older_than is not None and not choice.older_than >= 0:
        raise ConfigError(f"Expected --older-than to be a number of days, got {choice.older_than:g}. Correct it.")
    if choice.unused and not by_use:
        from shoal.library.kinds import KINDS

        known = listed([one.name for one in KINDS.values() if one.by_use])
        raise ConfigError(f"Expected --unused with {known} only. Use --older-than DAYS instead.")
    if choice.enough is None and choice.first != "oldest":
        raise ConfigError(
            "Expected --enough SIZE beside --first: without it all of them go. Say how much is to be free."
        )


def _agreed(wanted: CleaningPlan) -> bool:
    """Say what would go and what that costs, and ask where there is somebody to answer."""
    from shoal.library.kinds import counted, kept_in_words

    print(f"This removes {counted(wanted.kind, len(wanted.items))}, {file_size(wanted.bytes)}. {wanted.kind.cost}")
    if wanted.kept:
        print(kept_in_words(wanted.kept))
    if not sys.stdin.isatty():
        print("Nothing was removed. Add --yes to do it.")
        return False
    if input("Remove? [y/N] ").strip().lower() in ("y", "yes"):
        return True
    print("Nothing was removed.")
    return False
