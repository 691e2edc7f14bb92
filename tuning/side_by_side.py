"""Computations that each ask the rows one question at a time, side by side: one sweep answers what all of them ask.

Each runs in a thread of its own and waits for its answer; the next sweep is made when all that are left have asked. So
what one of them comes to does not depend on the others. No rows and no losses here.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

_Q = TypeVar("_Q")
_A = TypeVar("_A")
_F = TypeVar("_F")


class NobodyWaits(Exception):
    """Nobody waits for what this computation would come to."""


class _Word(NamedTuple):
    """What a computation says: its next question, what it came to, or the error that ended it."""

    number: int
    question: Any = None
    found: Any = None
    error: BaseException | None = None
    ended: bool = False


def side_by_side(
    computations: Sequence[Callable[[Callable[[_Q], _A]], _F]],
    answers: Callable[[dict[int, _Q]], Sequence[_A]],
) -> list[_F]:
    """What each came to; `answers` is given the questions by the number of who asks, in that order."""
    words: queue.SimpleQueue[_Word] = queue.SimpleQueue()
    replies: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in computations]
    threads = [
        threading.Thread(target=_run, args=(number, one, words, replies[number]), name="side by side", daemon=True)
        for number, one in enumerate(computations)
    ]
    found: dict[int, Any] = {}
    asked: dict[int, _Q] = {}
    for thread in threads:
        thread.start()
    try:
        while len(found) < len(computations):
            word = words.get()
            if word.error is not None:
                raise word.error
            if word.ended:
                found[word.number] = word.found
            else:
                asked[word.number] = word.question
            if asked and len(asked) + len(found) == len(computations):
                asked = dict(sorted(asked.items()))
                for number, answer in zip(asked, answers(asked), strict=True):
                    replies[number].put(answer)
                asked = {}
    finally:
        for reply in replies:
            reply.put(NobodyWaits)
        for thread in threads:
            thread.join()
    return [found[number] for number in range(len(computations))]


def _run(number: int, computation: Callable[..., Any], words: Any, replies: Any) -> None:
    def ask(question: Any) -> Any:
        words.put(_Word(number, question))
        answer = replies.get()
        if answer is NobodyWaits:
            raise NobodyWaits
        return answer

    try:
        words.put(_Word(number, found=computation(ask), ended=True))
    except NobodyWaits:
        return
    except BaseException as error:  # noqa: BLE001 - raised where the answers are awaited
        words.put(_Word(number, error=error))
