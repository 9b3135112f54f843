"""The server of the page: on the loopback interface, for the browser of one user.

It knows nothing of policies. It hands the texts of policy and log to a process for each request
(`workers`), which returns finished HTML (`fragments`, `plot`); the page inserts this, and the
exported page is made of the same parts.

What keeps others out: the address has a secret that is new for each run; requests must name this
server as host, so that no other name that resolves to it works; those with a text must come from
the page itself and carry the secret in a header, which no other page can send; and the page may
load nothing from elsewhere and run no script but its own. Nothing is written to disk.
"""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from mtlmon.serving.examples import EXAMPLES
from mtlmon.serving.page import POLICY_OF_CONTENT, asset, live_page
from mtlmon.serving.workers import Cancelled, TooLong, WorkerFailed

if TYPE_CHECKING:
    from mtlmon.serving.workers import Workers

__all__ = ["MOST_BYTES", "Playground", "Serving"]

HOST = "127.0.0.1"
MOST_BYTES = 8 << 20
"""The size of a request: the policy and the log as JSON."""

# For each request, what it has and of which type.
_TEXTS: dict[str, type] = {"policy": str, "log": str}
# What a request may have as well.
_POSSIBLE: dict[str, type] = {"policy_name": str, "log_name": str, "is_example": bool}
_WANTED = {
    "run": _TEXTS | {"width": int},
    "why": _TEXTS | {"verdict": str},
    "export": _TEXTS,
}
_ASSETS = {
    "playground.css": "text/css; charset=utf-8",
    "playground.js": "text/javascript; charset=utf-8",
    "editor.js": "text/javascript; charset=utf-8",
    "files.js": "text/javascript; charset=utf-8",
}
_HEADER = "X-Mtlmon-Secret"
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Playground:
    """What the page begins with.

    Attributes:
        policy: the text of the policy.
        log: the text of the log.
        policy_name: the name of the policy file.
        log_name: the name of the log.
    """

    policy: str
    log: str
    policy_name: str
    log_name: str


class Serving(ThreadingHTTPServer):
    """The server, which listens once it is made; `serve_forever` answers requests.

    Args:
        playground: what the page begins with.
        workers: what answers requests.
        port: the port; 0 for any that is free.

    Attributes:
        secret: the secret of the run, a part of the address.

    Raises:
        OSError: the port cannot be used.
    """

    daemon_threads = True
    allow_reuse_address = True
    playground: Playground
    workers: Workers

    def __init__(self, playground: Playground, workers: Workers, port: int = 0) -> None:
        self.playground = playground
        self.workers = workers
        self.secret = secrets.token_urlsafe(24)
        super().__init__((HOST, port), _Handler)
        own = self.server_address[1]
        self.hosts = {f"{HOST}:{own}", f"localhost:{own}"}

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/{self.secret}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: the browser has closed the connection."""


class _Handler(BaseHTTPRequestHandler):
    server: Serving
    protocol_version = "HTTP/1.1"
    server_version = "mtlmon"
    sys_version = ""
    timeout = _SECONDS

    def do_GET(self) -> None:
        """Send the page or a part of it."""
        path = self._path()
        if path is None:
            return
        if path == "":
            text = live_page(self.server.playground, self.server.secret)
            self._send(HTTPStatus.OK, text.encode("utf-8", "replace"), "text/html; charset=utf-8")
        elif path == "examples.json":
            texts = json.dumps([one._asdict() for one in EXAMPLES])
            self._send(HTTPStatus.OK, texts.encode(), "application/json")
        elif path in _ASSETS:
            self._send(HTTPStatus.OK, asset(path).encode(), _ASSETS[path])
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Answer a request of the page."""
        # what has not been read would be taken for the next request
        self.close_connection = True
        action = self._path()
        if action is None:
            return
        if action not in _WANTED:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such request")
            return
        body = self._body()
        if body is not None:
            self._answer(action, body)

    def _path(self) -> str | None:
        """Return the path behind the secret; refuse the request if it is not for this server."""
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this is another server")
            return None
        _, _, path = self.path.partition("?")[0].partition("/")
        secret, slash, rest = path.partition("/")
        if not slash or not _is_same(secret, self.server.secret):
            self._refuse(
                HTTPStatus.NOT_FOUND,
                "there is no such page: open the address that mtlmon serve shows",
            )
            return None
        return rest

    def _body(self) -> bytes | None:
        """Return the body of a request of the page; refuse it if it comes from elsewhere."""
        headers = self.headers
        if headers.get("Origin") not in {f"http://{host}" for host in self.server.hosts}:
            self._refuse(HTTPStatus.FORBIDDEN, "the request comes from another page")
        elif not _is_same(headers.get(_HEADER, ""), self.server.secret):
            self._refuse(
                HTTPStatus.FORBIDDEN, "the request comes from another run: reload the page"
            )
        elif headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "requests are JSON")
        elif "Transfer-Encoding" in headers or not headers.get("Content-Length", "").isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "requests tell their length")
        elif len(headers["Content-Length"]) > 9 or int(headers["Content-Length"]) > MOST_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"policy and log have more than {MOST_BYTES >> 20} MiB: use the command",
            )
        else:
            size = int(headers["Content-Length"])
            body = self.rfile.read(size)
            if len(body) == size:
                return body
        return None

    def _answer(self, action: str, body: bytes) -> None:
        try:
            request = json.loads(body)
            if not isinstance(request, dict):
                raise ValueError
            wanted = _WANTED[action]
            wanted = wanted | {name: _POSSIBLE[name] for name in _POSSIBLE.keys() & request}
            if any(type(request.get(name)) is not kind for name, kind in wanted.items()):
                raise ValueError
        except (ValueError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, "this is not a request of the page")
            return
        known = {name: request[name] for name in wanted} | {"action": action}
        try:
            answer = self.server.workers.answer(action, json.dumps(known).encode())
        except Cancelled:
            # nothing is wrong: browsers would log an error
            self._send(HTTPStatus.OK, b'{"superseded": true}', "application/json")
        except TooLong:
            self._refuse(
                HTTPStatus.GATEWAY_TIMEOUT,
                "this takes too long for the page: shorten the log, or use the command",
            )
        except WorkerFailed as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"the run has failed: {error}")
        else:
            self._send(HTTPStatus.OK, answer, "application/json")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True
        self._send(status, json.dumps({"error": message}).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": POLICY_OF_CONTENT,
            "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is not a request that this server knows."""
        self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing of requests."""


def _is_same(one: str, other: str) -> bool:
    """Whether texts are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
