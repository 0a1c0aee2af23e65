"""A tap for Zaqar: WSGI middleware that writes down each exchange with the server, as `docs/events.md` has it.

In Zaqar's `api-paste.ini`, behind what checks who asks (it sets `X-Project-Id`) and before the application:

    [filter:tap]
    paste.filter_factory = zaqar_tap:filter_factory
    folder = /srv/queues/landing/zaqar

Put this file and `spool.py` where the server's Python finds them. Each process of each server needs this filter; what
goes over a websocket is not seen.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

from spool import Spool, now

NUMBERS = ("limit", "pop")
"""What a query says in numbers."""


class Tap:
    """Middleware around ``app``. What the app answers goes to the client as it is."""

    def __init__(self, app: Callable, spool: Spool) -> None:
        self._app, self._spool = app, spool

    def __call__(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        """Answer one request, and write the exchange down once the answer is complete."""
        asked = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(asked)
        said: list[int] = []

        def start(status: str, headers: list, *failed: Any) -> Callable:
            said[:] = [int(status.split(" ", 1)[0])]
            return start_response(status, headers, *failed)

        parts = self._app(environ, start)
        try:
            answered = b"".join(parts)
        finally:
            if hasattr(parts, "close"):
                parts.close()
        event = exchange(environ, asked, said[0], answered)
        if event is not None:
            self._spool.write(event)
        return [answered]


def filter_factory(_settings: dict, folder: str, seconds: str = "60") -> Callable[[Callable], Tap]:
    """What `paste.deploy` asks for: the middleware, with one spool a process."""
    spool = Spool(folder, float(seconds))
    return lambda app: Tap(app, spool)


def exchange(environ: dict, asked: bytes, status: int, answered: bytes) -> dict | None:
    """The event, or ``None`` where the exchange says nothing of a queue: another path; or a list of ids whose commas
    are escaped, which Zaqar takes for one id that nobody has."""
    path = (environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"]).encode("latin-1").decode()
    query = environ.get("QUERY_STRING", "")
    if not path.startswith(("/v2/queues", "/v1.1/queues", "/v2/flavors")) or "%2c" in query.lower():
        return None
    named: dict[str, str | int] = dict(parse_qsl(query, keep_blank_values=True))
    named |= {name: int(text) for name, text in named.items() if name in NUMBERS and str(text).isdecimal()}
    return {
        "captured_at": now(),
        "method": environ["REQUEST_METHOD"],
        "path": path,
        "query": named or None,
        "project_id": environ.get("HTTP_X_PROJECT_ID"),
        "client_id": environ.get("HTTP_CLIENT_ID"),
        "request_body": json.loads(asked) if asked else None,
        "status": status,
        "response_body": json.loads(answered) if answered else None,
    }
