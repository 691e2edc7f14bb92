"""The routes of a prediction server as plain ASGI: /predict, /model, /health, /metrics; who may ask is in `door`, which
model answers in `served_model`, how the process lives in `server`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal.dashboard.api.problems import Refusal, refusal_of
from shoal.dashboard.http.problem import problem
from shoal.dashboard.http.visit import Visit
from shoal.dashboard.monitoring.exposition import CONTENT_TYPE, Family, Figure, single, text_of
from shoal.dashboard.monitoring.tally import AnswerCounts
from shoal.errors import TrainingError
from shoal.library.saved_models import Version
from shoal.people.acting import as_person
from shoal.people.belongings import sees
from shoal.people.person import Person
from shoal.registry.drift import SeenRows
from shoal.serving import bodies
from shoal.serving.door import PredictionDoor
from shoal.serving.served_model import ServedModel, WatchedModel
from shoal.tasks.predict_rows import RowPredictions

log = logging.getLogger("shoal")

LONGEST_BODY = 32 << 20  # bytes of a request
BODY_SECONDS = 30.0  # that a body may take to come
AT_ONCE = 16 << 10  # bytes of a body that is answered without a thread: that takes longer than a few rows
BOUNDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)  # seconds
FAILED = "This failed for an unforeseen reason; the server goes on. Its output says more."
CLOSING = {"Connection": "close"}  # or the rest of a body would be taken for the next request
HEADERS = {
    "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip

OnAnswer = Callable[[ServedModel, RowPredictions], None]


class PredictionApp:
    """`seen` is told of every answer, for whoever looks how rows differ from those of training."""

    def __init__(self, model: WatchedModel, door: PredictionDoor, seen: OnAnswer) -> None:
        self.model, self.door, self.seen = model, door, seen
        self.tally, self.began = AnswerCounts(BOUNDS), time.time()
        self.rows = self.noted = 0
        self._threads = asyncio.Semaphore(os.cpu_count() or 1)
        self._routes = {
            "/predict": ("POST", self._predict), "/model": ("GET", self._card), "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
        }  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        came, visit = time.perf_counter(), Visit(scope)
        try:
            self._check_seen(await self.door.enter(visit))
            answer = await self._answer(visit, receive)
        except (Refusal, TrainingError) as error:
            told = error if isinstance(error, Refusal) else refusal_of(error)
            closing = CLOSING if visit.method == "POST" and told.status in (400, 401, 403, 404, 405, 408, 413) else {}
            answer = problem(told.status, told.detail, {**closing, **told.headers}, **told.more)
        except GoneError:
            self.tally.answers[_kind(visit.path), "none"] += 1
            return
        except Exception:
            log.exception("A request failed: %s %r", visit.method, visit.path)
            answer = problem(500, FAILED, CLOSING)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        self.tally.answered(_kind(visit.path), answer.status_code, time.perf_counter() - came)
        await answer(scope, receive, send)

    def _check_seen(self, person: Person) -> None:
        """What is private is here for nobody else either; it may have become so since this server began."""
        with as_person(person):
            if not sees(self.model.current.path):
                raise Refusal(404, "There is no model here that you may see. Ask whoever runs this server.")

    async def _answer(self, visit: Visit, receive: Receive) -> Response:
        known = self._routes.get(visit.path)
        if known is None:
            raise Refusal(404, f"There is nothing at this address. There are: {', '.join(self._routes)}.")
        method, does = known
        if visit.method != method and not (method == "GET" and visit.method == "HEAD"):
            raise Refusal(405, f"Expected {method} at {visit.path}, got {visit.method[:20]}.", {"Allow": method})
        return await does(visit, receive)

    # ---------------------------------------------------------------- predictions

    async def _predict(self, visit: Visit, receive: Receive) -> Response:
        kind = visit.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (bodies.JSON, bodies.CSV):
            raise Refusal(415, f"Expected a body of type {bodies.JSON} or {bodies.CSV}, got '{kind[:80]}'.", CLOSING)
        data, served = await _body(visit, receive), self.model.current
        query = dict(parse_qsl(visit.query, keep_blank_values=True))
        if len(data) <= AT_ONCE:
            found, text = _predicted(kind, data, query, served)
        else:
            async with self._threads:
                found, text = await asyncio.to_thread(_predicted, kind, data, query, served)
        self.rows, self.noted = self.rows + len(found.predictions), self.noted + bool(found.notes)
        self.seen(served, found)
        return Response(text, media_type=kind, headers={"X-Shoal-Model": _ascii(served.label)})

    # ---------------------------------------------------------------- what is said of it

    async def _card(self, visit: Visit, receive: Receive) -> Response:
        return _json({**self.model.current.card(), "asked_for": self.model.named, "problem": self.model.problem})

    async def _health(self, visit: Visit, receive: Receive) -> Response:
        """No more than a stranger may know."""
        current = self.model.current
        state = "behind" if self.model.problem else "current"
        return _json({"status": "ok", "version": current.number, "model": state, "served_since": current.since})

    async def _metrics(self, visit: Visit, receive: Receive) -> Response:
        current = self.model.current
        labels = {"name": current.name, "version": str(current.number or "")}
        families = [
            *self.tally.families(),
            single("shoal_predicted_rows_total", "counter", "Rows that were predicted.", self.rows),
            single("shoal_predictions_noted_total", "counter", "Answers with a note, as of unknown levels.",
                   self.noted),
            Family("shoal_served_model", "gauge", "The model that answers, by its labels; its value is 1.",
                   [Figure(1, labels)]),
            single("shoal_served_since_seconds", "gauge", "When this version was taken, in seconds since 1970.",
                   current.since),
            single("shoal_served_changes_total", "counter", "How often another version was taken.",
                   self.model.changes),
            single("shoal_served_behind", "gauge", "1 while the version that is meant cannot be served.",
                   float(bool(self.model.problem))),
            single("shoal_up_since_seconds", "gauge", "When this server began, in seconds since 1970.", self.began),
        ]  # fmt: skip
        return Response(text_of(families), headers={"Content-Type": CONTENT_TYPE})


def kept_by(seen: SeenRows) -> OnAnswer:
    """Sum up the rows of saved models, for whoever looks how far they are from training."""

    def add(served: ServedModel, found: RowPredictions) -> None:
        if served.number is not None:
            seen.add(Version(served.name, served.number), served.predictor.model.file.design, found.columns)

    return add


class GoneError(Exception):
    """Whoever asked is gone before the request was whole."""


def _predicted(kind: str, data: bytes, query: Mapping[str, str], served: ServedModel) -> tuple[RowPredictions, bytes]:
    wanted = bodies.asked(kind, data, query, served.predictor.model)
    found = served.predictor.predict(wanted.rows, wanted.threshold, wanted.interval)
    return found, bodies.answer(kind, served, found)


async def _body(visit: Visit, receive: Receive) -> bytes:
    said = visit.headers.get("content-length", "")
    if said.isdecimal() and int(said) > LONGEST_BODY:
        raise _too_long()
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise GoneError
                data += message.get("body", b"")
                if len(data) > LONGEST_BODY:
                    raise _too_long()
                if not message.get("more_body"):
                    return bytes(data)
    except TimeoutError:
        raise Refusal(408, f"Expected a whole request within {BODY_SECONDS:g} s.") from None


def _too_long() -> Refusal:
    return Refusal(413, f"Expected a request of at most {LONGEST_BODY:,} bytes. Send the rows in parts.")


def _kind(path: str) -> str:
    """Few and fixed: no address that somebody makes up becomes a label."""
    return path[1:] if path in ("/predict", "/model", "/health", "/metrics") else "other"


def _json(values: Any) -> Response:
    return Response(json.dumps(values, separators=(",", ":")), media_type=bodies.JSON)


def _ascii(text: str) -> str:
    """Names may be in any script; a header has ASCII alone."""
    return text.encode("ascii", "backslashreplace").decode()
