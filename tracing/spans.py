"""Spans by OpenTelemetry, sent to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names; nothing at all without it.

One trace is one run: who launches it leaves the trace's name in the run's folder, and the process of the run goes on
with it. Names of stages, counts and scores travel; names of columns, paths and values of the data do not. What a
collector does not take is lost, and said once: no run waits for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PATIENCE = 3.0  # seconds that a collector has to take the last spans
SENT = 1000  # milliseconds between two messages
Warn = Callable[[str], None]
Attribute = str | int | float | bool
T = TypeVar("T")


class _On:
    """The tracing of this process, once it has begun."""

    provider: TracerProvider | None = None
    tracer: Tracer | None = None
    first: dict[str, str] = {}  # noqa: RUF012 - of the outermost span, for threads that have none


def wanted() -> bool:
    """Whether a collector is named."""
    return any(os.environ.get(name) for name in ENDPOINTS)


def begin(service: str, warn: Warn) -> None:
    """Trace what this process does from now on, if a collector is named; `warn` is told once why it cannot be."""
    if _On.tracer is not None or not wanted():
        return
    try:
        provider = _provider(service, warn)
    except ImportError:
        warn("Traces are wanted, but OpenTelemetry is not installed. Install it with: pip install 'shoal[traces]'")
        return
    _On.provider, _On.tracer = provider, provider.get_tracer("shoal")


def end() -> None:
    """Send what is left, for a few seconds at most."""
    provider, _On.provider, _On.tracer, _On.first = _On.provider, None, None, {}
    if provider is not None:
        last = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(PATIENCE)


@contextlib.contextmanager
def tracing(service: str, warn: Warn) -> Iterator[None]:
    begin(service, warn)
    try:
        yield
    finally:
        end()


@contextlib.contextmanager
def span(name: str, parent: str = "", **attributes: Attribute) -> Iterator[None]:
    """One piece of work. `parent`, by `here` in another process, is what it is part of; else what is at work here."""
    if _On.tracer is None:
        yield
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent else None
    with _On.tracer.start_as_current_span(name, context, attributes=attributes) as begun:
        told = begun.get_span_context()
        _On.first = _On.first or {"trace_id": trace.format_trace_id(told.trace_id)}
        yield


def past(name: str, began: int, **attributes: Attribute) -> None:
    """A piece of work that ends now and began at this `time.time_ns()`: for what others go on in the middle of."""
    if _On.tracer is not None:
        _On.tracer.start_span(name, start_time=began, attributes=attributes).end(time.time_ns())


def traced(name: str, answers: Iterator[T]) -> Iterator[T]:
    """What an iteration yields, from its first question to its last answer as one span."""
    if _On.tracer is None:
        return answers
    return _traced(name, answers)


def _traced(name: str, answers: Iterator[T]) -> Iterator[T]:
    began, count = time.time_ns(), 0
    try:
        for answer in answers:
            count += 1
            yield answer
    finally:
        past(name, began, answers=count)


def here() -> str:
    """What other processes say as `parent` of theirs; empty if nothing is traced."""
    if _On.tracer is None:
        return ""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "")


def ids() -> dict[str, str]:
    """What a line of a log says of the trace that it belongs to."""
    if _On.tracer is None:
        return {}
    from opentelemetry import trace

    told = trace.get_current_span().get_span_context()
    if not told.is_valid:
        return _On.first
    return {"trace_id": trace.format_trace_id(told.trace_id), "span_id": trace.format_span_id(told.span_id)}


def _provider(service: str, warn: Warn) -> TracerProvider:
    import logging

    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    class Telling(OTLPSpanExporter):
        """Says once that spans cannot be sent, where the library would say so at every try."""

        told = False

        def export(self, spans: Any) -> SpanExportResult:
            try:
                found = super().export(spans)
                why = "" if found is SpanExportResult.SUCCESS else "it does not take them"
            except Exception as error:  # noqa: BLE001 - whatever a collector does, no run ends by it
                found, why = SpanExportResult.FAILURE, type(error).__name__
            if why and not self.told:
                self.told = True
                warn(f"Traces cannot be sent to the collector that {' or '.join(ENDPOINTS)} names ({why}).")
            return found

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    named = os.environ.get("OTEL_SERVICE_NAME") or service
    resource = Resource.create({"service.name": named, "process.pid": os.getpid()})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Telling(timeout=PATIENCE), schedule_delay_millis=SENT))
    return provider
