"""Several long computations in turns: each is a row of steps, and the one that has come the least far goes on next.

So the beginnings of all are there early, and no more of them are open at a time than there is room for. What a step
says does not depend on whose turn it was, nor on how many hands there are.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from shoal.kernels.threads import one_thread

STRIDE = 5  # steps that one goes on before another has its turn
HANDS = 4  # threads at most: the arithmetic runs outside the interpreter's lock


class Turn(NamedTuple):
    """What one of them said, by its number."""

    number: int
    said: Any


class _Turns:
    """The open ones with how far they are, those that are not begun yet, and what they have said so far."""

    def __init__(self, begin: Callable[[int], Iterator[Any]], count: int, most: int) -> None:
        self.begin, self.most = begin, max(1, most)
        self.waiting = list(range(count))
        self.open: list[tuple[int, int, Iterator[Any]]] = []  # steps done, number; those that nobody has in hand
        self.begun = 0  # and not ended
        self.said: queue.SimpleQueue[Turn | BaseException | None] = queue.SimpleQueue()
        self.changed, self.stopped = threading.Condition(), False

    def work(self) -> None:
        while (turn := self._next()) is not None:
            done, number, steps = turn
            try:
                steps = self.begin(number) if steps is None else steps
                ended = self._advance(number, steps)
            except BaseException as error:  # noqa: BLE001 - told where the answers are awaited
                self.said.put(error)
                self.stop()
                return
            with self.changed:
                if ended:
                    self.begun -= 1
                else:
                    self.open.append((done + STRIDE, number, steps))
                self.changed.notify_all()
        self.said.put(None)

    def _advance(self, number: int, steps: Iterator[Any]) -> bool:
        for _ in range(STRIDE):
            said = next(steps, self)
            if said is self:
                return True
            if self.stopped:
                break
            self.said.put(Turn(number, said))
        return False

    def _next(self) -> tuple[int, int, Iterator[Any] | None] | None:
        """The one whose turn it is, without steps where it is not begun yet; None when there is none left."""
        with self.changed:
            while not self.stopped:
                if self.waiting and self.begun < self.most:
                    self.begun += 1
                    number = self.waiting.pop(0)
                    return 0, number, None
                if self.open:
                    found = min(self.open, key=lambda one: one[:2])
                    self.open.remove(found)
                    return found
                if not (self.begun or self.waiting):
                    return None
                self.changed.wait()
        return None

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()


def in_turns(begin: Callable[[int], Iterator[Any]], count: int, most: int) -> Iterator[Turn]:
    """The steps of `begin(0)`, ..., `begin(count - 1)` as they come, those of one in their order; where there is room
    for two only, one works at a time: each step takes room as well."""
    turns = _Turns(begin, count, most)
    with one_thread, _hands(turns, max(1, min(HANDS, os.cpu_count() or 1, count, most - 1))) as hands:
        idle = 0
        while idle < hands:
            said = turns.said.get()
            if isinstance(said, BaseException):
                raise said
            if said is None:
                idle += 1
            else:
                yield said


@contextmanager
def _hands(turns: _Turns, count: int) -> Iterator[int]:
    """Threads that work; whoever leaves, by an error too, has them end at their next step."""
    threads = [threading.Thread(target=turns.work, name="turns", daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield count
    finally:
        turns.stop()
        for thread in threads:
            thread.join()
