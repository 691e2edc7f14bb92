"""How a job becomes what it is next: taken, renewed, lost, tried again, ended. Pure; who may ask is in `queue`.

Every way out of a host raises the fence, so that a host which lost a job, and does not know it, is refused.
"""

from __future__ import annotations

from dataclasses import replace

from shoal.queueing.jobs import CANCELLED, FAILED, FINISHED, RUNNING, WAITING, Job
from shoal.words import plural

FIRST_REST, GROWTH, LONGEST_REST = (
    2.0,
    5.0,
    300.0,
)  # seconds before it is tried again; so many times longer each; at most
CALM = 600.0  # seconds of work after which a lost host is no sign that the job is at fault
STOPPED = "It was cancelled."


def rest_before(number: int) -> float:
    """Seconds before this try, which is 1 for the first after a failure."""
    return float(min(FIRST_REST * GROWTH ** min(number - 1, 20), LONGEST_REST))


def put(job: Job, before: Job | None, now: float) -> Job:
    """As it is put; one that has ended is opened again, behind the fence of its last life."""
    fence, after = (before.fence + 1, before.after) if before else (0, job.after)
    return replace(
        Job(job.id, job.owner, job.priority, job.need, after, job.allowed, home=job.home),
        fence=fence, put_at=now, ready_at=now,
    )  # fmt: skip


def taken(job: Job, host: str, now: float, lease: float) -> Job:
    return replace(job, state=RUNNING, host=host, taken_at=now, lease_until=now + lease)


def renewed(job: Job, now: float, lease: float) -> Job:
    return replace(job, lease_until=now + lease)


def is_overdue(job: Job, now: float) -> bool:
    return job.state == RUNNING and job.lease_until < now


def _left(job: Job) -> Job:
    return replace(job, state=WAITING, fence=job.fence + 1, host="", lease_until=0.0)


def ended(job: Job, state: str, now: float, words: str = "") -> Job:
    """With the fence of its last host, which nobody can use again: it is not running."""
    return replace(job, state=state, ended_at=now, words=words, lease_until=0.0, stopping=False)


def finished(job: Job, now: float, words: str = "") -> Job:
    return ended(job, FINISHED, now, words)


def failed(job: Job, now: float, words: str, again: bool) -> Job:
    """After a rest once more, where that may help; a cancelled one is not tried again."""
    if job.stopping:
        return ended(job, CANCELLED, now, STOPPED)
    if not again:
        return ended(job, FAILED, now, words)
    tries = job.tries if now - job.taken_at < CALM else 0
    if tries >= job.allowed:
        return ended(job, FAILED, now, f"{words} It was tried {plural(tries + 1, 'time')}.")
    return replace(_left(job), tries=tries + 1, ready_at=now + rest_before(tries + 1), words=words)


def lost(job: Job, now: float) -> Job:
    """Its host said nothing for as long as the lease: another takes it up, at once the first time."""
    after = failed(job, now, f"The run host {job.host} was lost.", again=True)
    return replace(after, ready_at=now) if after.state == WAITING and after.tries == 1 else after


def given_back(job: Job, now: float, words: str = "") -> Job:
    """By a host that ends in order: that is not the job's fault, and no try."""
    if job.stopping:
        return ended(job, CANCELLED, now, STOPPED)
    return replace(_left(job), ready_at=now, words=words)


def cancelled(job: Job, now: float) -> Job:
    """One that waits is over; one that runs is told so by its host's next heartbeat."""
    return replace(job, stopping=True) if job.state == RUNNING else ended(job, CANCELLED, now, STOPPED)


def orphaned(job: Job, other: Job, now: float) -> Job:
    """It waits for what will not be finished."""
    how = "was cancelled" if other.state == CANCELLED else "failed"
    return ended(job, FAILED, now, f"It waited for {other.id}, which {how}.")
