"""Test files without an extra that they import are skipped, as one test each that says why; other errors stay errors."""

from __future__ import annotations

from collections.abc import Generator

import pytest

EXTRAS = {
    "authlib": "oidc",
    "joserfc": "oidc",
    "opentelemetry": "traces",
    "pdoc": "docs",
    "psycopg": "postgres",
    "ray": "ray",
    "safetensors": "torch",
    "torch": "torch",
}


class WholeFile(pytest.Item):
    """In place of the tests of a file: xdist says nothing of a file that was skipped before it had any."""

    reason = ""

    def runtest(self) -> None:
        pytest.skip(self.reason)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if reason := _reason(report):
        item = WholeFile.from_parent(collector, name="whole file")
        item.reason = reason
        report.outcome, report.longrepr, report.result = "passed", None, [item]
    return report


def _reason(report: pytest.CollectReport) -> str:
    """Why all of a file is skipped, if it is."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    call = getattr(report, "call", None)
    cause = call.excinfo.value.__cause__ if call is not None and call.excinfo is not None else None
    missing = cause.name.split(".")[0] if isinstance(cause, ModuleNotFoundError) and cause.name else ""
    return f"{missing} is not installed: pip install 'shoal[{EXTRAS[missing]}]'" if missing in EXTRAS else ""
