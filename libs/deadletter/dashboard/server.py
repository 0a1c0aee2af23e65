"""The dashboard in a browser on this machine, and as files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from plotly.offline import get_plotlyjs

from deadletter.dashboard.definition import Dashboard, load
from deadletter.dashboard.page import render
from deadletter.dashboard.queries import Data
from deadletter.errors import DeadletterError, first_line
from deadletter.lake import Lake

SCRIPT = "/plotly.js"
OWN_NAMES = (None, "localhost", "127.0.0.1")
"""Hosts that a browser on this machine asks for. By another name a page from elsewhere could have this one read."""


def is_own(host: str) -> bool:
    """Whether a request's ``host`` is one of :data:`OWN_NAMES`.

    >>> [is_own(host) for host in ("", "localhost:8050", "127.0.0.1", "elsewhere.example:8050", "[bad")]
    [True, True, True, False, False]
    """
    try:
        return urlsplit(f"//{host}").hostname in OWN_NAMES
    except ValueError:  # no host at all
        return False


def bundled() -> Dashboard:
    """The dashboard that the bundle deploys."""
    return load(Path(str(files("deadletter.dashboard") / "definitions" / "dead_letters.lvdash.json")))


@contextmanager
def server(lake: Lake, dashboard: Dashboard, port: int) -> Iterator[ThreadingHTTPServer]:
    """A server on localhost, not yet serving; ``port`` 0 takes a free one."""
    try:
        listening = ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler)
    except OSError as error:
        raise DeadletterError(f"cannot serve on port {port}: {error.strerror}. Name another with --port.") from None
    with listening, closing(Data(lake, dashboard)) as data:
        listening.RequestHandlerClass = handler(data)
        yield listening


def handler(data: Data) -> type[BaseHTTPRequestHandler]:
    """What answers a request from ``data``."""
    dashboard = data.dashboard

    class Handler(BaseHTTPRequestHandler):
        """Answers with a page, or with plotly's script."""

        def handle(self) -> None:
            """Nobody waits for what a browser that is gone had asked."""
            with suppress(ConnectionError):
                super().handle()

        def do_GET(self) -> None:
            """The page of ``?page=``, filtered by the other parameters."""
            try:
                url = urlsplit(self.path)
            except ValueError:
                self._answer("no address", "text/plain", status=HTTPStatus.BAD_REQUEST)
                return
            if not is_own(self.headers.get("Host", "")):
                told = "open http://localhost or http://127.0.0.1, with this port"
                self._answer(told, "text/plain", status=HTTPStatus.FORBIDDEN)
            elif url.path == SCRIPT:
                self._answer(get_plotlyjs(), "text/javascript", cache=True)
            elif url.path == "/":
                self._page(parse_qs(url.query, keep_blank_values=True))
            else:
                self._answer("not found", "text/plain", status=HTTPStatus.NOT_FOUND)

        def _page(self, asked: dict[str, list[str]]) -> None:
            pages = {page.name: page for page in dashboard.canvases()}
            page = pages.get(asked.pop("page", [""])[0], dashboard.canvases()[0])
            try:
                drawn = render(data, page, asked, SCRIPT)
            except Exception as error:
                said = f"{type(error).__name__}: {first_line(error)}"  # not Spark's whole plan
                self._answer(said, "text/plain", HTTPStatus.INTERNAL_SERVER_ERROR)
            else:
                self._answer(drawn, "text/html")

        def _answer(self, text: str, kind: str, status: HTTPStatus = HTTPStatus.OK, cache: bool = False) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "max-age=86400" if cache else "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args) -> None:
            """Nobody reads a line a request."""

    return Handler


def write(lake: Lake, dashboard: Dashboard, out: str) -> list[Path]:
    """Each page as a file that opens offline, everything shown; returns the files."""
    with closing(Data(lake, dashboard)) as data:
        pages = {Path(out) / f"{page.name}.html": render(data, page, {}) for page in dashboard.canvases()}
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DeadletterError(f"cannot write the dashboard to {out}: {error.strerror}") from None
    return list(pages)
