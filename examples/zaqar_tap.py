"""A tap for Zaqar: WSGI middleware that writes down each exchange with the server, as `docs/events.md` has it.

Where your WSGI server loads `zaqar.transport.wsgi.app:app`, have it load a module of your own in its place. Behind what
checks who asks, which sets `X-Project-Id`, and before Zaqar:

    from keystonemiddleware import auth_token
    from zaqar.transport.wsgi import app as zaqar_app

    from spool import Spool
    from zaqar_tap import Tap

    app = auth_token.AuthProtocol(Tap(zaqar_app.app, Spool("/srv/queues/landing/zaqar")), {})

Each process of each server needs it; what goes over a websocket is not seen. Where an exchange cannot be written down,
as on a full disk, the client gets its answer all the same, and the log says so: what happened in it is missing then.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

from spool import Spool, now

LOG = logging.getLogger(__name__)
NUMBERS = ("limit", "pop")
"""What a query says in numbers."""


class Tap:
    """Middleware around ``app``. What the app answers goes to the client as it is."""

    def __init__(self, app: Callable, spool: Spool) -> None:
        self._app, self._spool = app, spool

    def __call__(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        """Answer one request, and write the exchange down once the answer is complete."""
        asked, length = b"", environ.get("CONTENT_LENGTH") or ""
        if length.isdecimal():
            asked = environ["wsgi.input"].read(int(length))
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
        try:
            event = exchange(environ, asked, said[0], answered)
            if event is not None:
                self._spool.write(event)
        except Exception:
            LOG.exception("not written down: %s %s", environ.get("REQUEST_METHOD"), environ.get("PATH_INFO"))
        return [answered]


def exchange(environ: dict, asked: bytes, status: int, answered: bytes) -> dict | None:
    """The event, or ``None`` where the exchange says nothing of a queue: another path; or a list of ids whose commas
    are escaped, which Zaqar takes for one id that nobody has."""
    path, query = environ["PATH_INFO"].encode("latin-1").decode(), environ.get("QUERY_STRING", "")
    one_id = any(part.startswith("ids=") and "%2c" in part.lower() for part in query.split("&"))
    if one_id or not path.startswith(("/v2/queues", "/v1.1/queues", "/v2/flavors")):
        return None
    named: dict[str, str | int] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in NUMBERS and text.isdecimal():
            named[name] = int(text)
        else:  # Zaqar takes a list's items from several of one name, too
            named[name] = f"{named[name]},{text}" if name == "ids" and name in named else text
    return {
        "captured_at": now(),
        "method": environ["REQUEST_METHOD"],
        "path": path,
        "query": named or None,
        "project_id": environ.get("HTTP_X_PROJECT_ID"),
        "client_id": environ.get("HTTP_CLIENT_ID"),
        "request_body": read(asked),
        "status": status,
        "response_body": read(answered),
    }


def read(body: bytes) -> Any:
    """A body as JSON; ``None`` where there is none, or where it is none, which Zaqar refuses."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None
