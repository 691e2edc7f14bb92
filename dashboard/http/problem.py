"""A problem as programs are told it: RFC 9457, a status and a plain sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    return Response(text, status, {"Cache-Control": "no-store", **(headers or {})}, MEDIA_TYPE)
