"""One server for all tests of the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.dashboard.service import Service, served


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with served(tmp_path_factory.mktemp("service")) as found:
        yield found
