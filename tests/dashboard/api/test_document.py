"""The document of the API holds: whatever it allows is answered as it says, on a real server; and the page that shows it."""

from __future__ import annotations

import socket

import pytest

from shoal.dashboard.api.document import document, operations
from support.dashboard.service import Service

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

import hypothesis  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 4
OPERATIONS = {one.id: one for one in operations()}


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"followRun"}))  # whose answer has no end
def test_whatever_the_document_allows_is_answered_as_it_says(service: Service, name: str) -> None:
    headers = {"Authorization": f"Bearer {service.token}"}
    schema = schemathesis.openapi.from_dict(document())
    schema.config.update(base_url=service.server.url.rstrip("/"))
    (operation,) = [
        found for found in (one.ok() for one in schema.get_all_operations())
        if found.definition.raw["operationId"] == name
    ]  # fmt: skip

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    def asked(case: schemathesis.Case) -> None:
        _known(case, service)
        answer = case.call(headers=headers, timeout=60)
        case.validate_response(answer, checks=CHECKS)

    asked()


def _known(case: schemathesis.Case, service: Service) -> None:
    """Things that are there, where by chance none would ever be named; the rest stays as it came."""
    if case.query and "wait" in case.query:
        case.query["wait"] = 1
    there = {"run": service.run, "model": "small", "version": "1", "dataset": service.dataset}
    for name, value in there.items():
        if case.path_parameters and name in case.path_parameters and len(str(case.path_parameters[name])) % 2:
            case.path_parameters[name] = value
    if isinstance(case.body, dict) and "dataset" in case.body and case.operation.path.endswith(("tune", "runs")):
        case.body["dataset"] = service.dataset
        case.body["target"] = "y"


def test_it_is_a_valid_document() -> None:
    from jsonschema import Draft202012Validator

    said = document()
    assert said["openapi"] == "3.1.0"
    for schema in said["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    ids = [one["operationId"] for methods in said["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids)) == len(operations())


def test_the_page_needs_nothing_from_elsewhere(service: Service) -> None:
    for name, kind in (("docs", "text/html"), ("reference.js", "text/javascript"), ("reference.css", "text/css")):
        answer = service.ask("GET", f"/{name}")
        assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, kind)
        assert b"//" not in answer.body.replace(b"// Draws", b"").replace(b"http://", b"")


def test_a_body_that_is_too_long_is_refused_before_it_comes(service: Service) -> None:
    lines = ("POST /api/v1/runs HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {service.token}",
             "Content-Type: application/json", f"Content-Length: {10**18}", "", "")  # fmt: skip
    with socket.create_connection(("127.0.0.1", service.server.port), timeout=60) as link:
        link.sendall("\r\n".join(lines).encode())
        answer = b"".join(iter(lambda: link.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"at most 4,194,304 bytes" in answer
