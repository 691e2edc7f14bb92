"""`python -m benchmarks.team`: 1,000 small fits by two run hosts that are killed twenty times; prints what came of it.

It starts a PostgreSQL of its own (Debian's package) in a temporary folder, which syncs every commit.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from shoal.database.address import VARIABLE
from shoal.database.connections import close_all, database
from shoal.database.migrations import upgrade
from support.runs import small_table
from support.team.marathon import Outcome, marathon
from support.team.postgres import Postgres

SYNCED = ("fsync", "full_page_writes", "synchronous_commit")  # which tests do without


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.team", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="fits of 400 rows and 3 columns (default 1000)")
    parser.add_argument("--kills", type=int, default=20, help="of hosts, by kill -9 (default 20)")
    parser.add_argument("--hosts", type=int, default=2, help="at a time, with one slot each (default 2)")
    parser.add_argument("--apart", action="store_true", help="each host has a home of its own, and the table travels")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-team-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server is another user's where this one is root
        (folder / "server").mkdir(mode=0o755)
        server = Postgres(folder / "server")
        server.start()
        for setting in SYNCED:
            server.execute(f"ALTER SYSTEM SET {setting} = on")
        server.stop()
        server.start()
        try:
            os.environ[VARIABLE] = server.address(server.new_database())
            os.environ["SHOAL_HOME"] = str(folder / "home")
            with database().connection(checked=False) as connection:
                upgrade(connection)
            asked = chosen.jobs, chosen.kills, chosen.hosts, print, chosen.apart
            show(marathon(small_table(folder), folder, *asked), chosen.jobs)
            close_all()
        finally:
            server.close()


def show(outcome: Outcome, jobs: int) -> None:
    once = set(outcome.finished.values()) == {1} and len(outcome.finished) == jobs
    print(f"queued: {jobs} in {outcome.queued:.1f} s")
    rate = jobs / outcome.working
    print(f"done: in {outcome.working:.1f} s, {rate:.1f} a second, with {outcome.kills} kills of hosts")
    print(f"ledger: {'each' if once else 'NOT each'} finished exactly once; lost {outcome.lost} times")
    print(f"states: {dict(outcome.states)} by the queue, {dict(outcome.folders)} by the folders")
    for what, reads in (("open jobs", outcome.queue_reads), ("list of runs", outcome.run_reads)):
        half, most = (outcome.percentile(reads, share) for share in (0.5, 0.95))
        print(f"{what}: {len(reads)} reads, median {half * 1000:.0f} ms, 95th percentile {most * 1000:.0f} ms")


if __name__ == "__main__":
    main()
