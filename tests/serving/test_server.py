"""Whom the server of the playground answers, and what it refuses."""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cli.process import wait_until
from tests.doors import MOST_BYTES, Playground, Serving, TooLong, WorkerFailed, Workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# an answer to a request with a log comes once a file of that name exists
ECHO = """
import os, sys, time, json
request = json.loads(sys.stdin.read() or "null")
if request is not None:
    while request["log"] and not os.path.exists(request["log"]):
        time.sleep(0.005)
    if request["policy"] == "fail":
        sys.exit("out of order")
    print(json.dumps(request))
"""
COMMAND = [sys.executable, "-c", ECHO]
TEXT = "</textarea><script>alert(1)</script>"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: str


class Client:
    """Sends requests that are as the page's, but for what is given."""

    def __init__(self, server: Serving) -> None:
        self.server = server
        self.port = server.server_address[1]

    def send(
        self,
        method: str,
        path: str | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.putrequest(method, path or f"/{self.server.secret}/", skip_host=True)
        for name, value in {"Host": f"127.0.0.1:{self.port}", **(headers or {})}.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        found = Answer(response.status, dict(response.headers), response.read().decode())
        connection.close()
        return found

    def ask(
        self,
        body: bytes | dict[str, object] | None = None,
        headers: Mapping[str, str | None] | None = None,
        action: str = "run",
    ) -> Answer:
        if not isinstance(body, bytes):
            body = json.dumps(body or {"policy": "p", "log": "", "width": 500}).encode()
        usual = {
            "Origin": f"http://127.0.0.1:{self.port}",
            "X-Mtlmon-Secret": self.server.secret,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        }
        path = f"/{self.server.secret}/{action}"
        return self.send("POST", path, body, {**usual, **(headers or {})})


@pytest.fixture
def client() -> Iterator[Client]:
    workers = Workers(COMMAND, seconds=5)
    server = Serving(Playground(TEXT, "\n@1 p", "<b>.mtl", "events.log"), workers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield Client(server)
    server.shutdown()
    server.server_close()
    workers.close()
    thread.join()


def test_the_page(client: Client) -> None:
    answer = client.send("GET")
    assert answer.status == 200
    assert TEXT not in answer.body
    assert "&lt;/textarea&gt;" in answer.body
    assert "<b>" not in answer.body
    assert "<template>\n@1 p</template>" in answer.body
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert not re.search(r"https?://", answer.body)


def test_it_listens_on_the_loopback_alone(client: Client) -> None:
    assert client.server.server_address[0] == "127.0.0.1"
    assert client.server.url.startswith("http://127.0.0.1:")
    assert len(client.server.secret) >= 32


@pytest.mark.parametrize(
    "name", ["playground.js", "editor.js", "files.js", "playground.css", "examples.json"]
)
def test_what_belongs_to_the_page(client: Client, name: str) -> None:
    answer = client.send("GET", f"/{client.server.secret}/{name}")
    assert answer.status == 200
    assert not re.search(r"https?://", answer.body)
    head = client.send("HEAD", f"/{client.server.secret}/{name}")
    assert (head.status, head.body) == (200, "")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/{}",
        "/x{}/",
        "/{prefix}/",
        "/{}x/",
        "//",
        "/{}/playground.html",
        "/{}/../playground.py",
        "/{}/%2e%2e/server.py",
        "/{}//etc/passwd",
        "/{}/playground.js/",
        "/é/",
        "http://127.0.0.1/",
    ],
)
def test_other_paths(client: Client, path: str) -> None:
    secret = client.server.secret
    path = path.format(secret, prefix=secret[:20])
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n\r\n"
    assert raw(client, request.encode("latin-1")).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{}", "", None],
)
def test_other_hosts(client: Client, host: str | None) -> None:
    headers = {"Host": host and host.format(client.port)}
    for answer in client.send("GET", headers=headers), client.ask(headers=headers):
        assert answer.status == 421
        assert client.server.secret not in answer.body


def test_two_hosts(client: Client) -> None:
    host = f"Host: 127.0.0.1:{client.port}\r\n"
    request = f"GET /{client.server.secret}/ HTTP/1.1\r\n{host}Host: evil\r\n\r\n"
    assert raw(client, request.encode()).startswith(b"HTTP/1.1 421 ")


def test_the_page_may_ask(client: Client) -> None:
    for name in "127.0.0.1", "localhost":
        host = f"{name}:{client.port}"
        answer = client.ask(headers={"Host": host, "Origin": f"http://{host}"})
        assert answer.status == 200
        asked = {"policy": "p", "log": "", "width": 500, "action": "run"}
        assert json.loads(answer.body) == asked


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": None}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"X-Mtlmon-Secret": None}, 403),
        ({"X-Mtlmon-Secret": ""}, 403),
        ({"X-Mtlmon-Secret": "é"}, 403),
        ({"X-Mtlmon-Secret": "{secret}x"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": None}, 415),
        ({"Content-Length": None}, 411),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "٣"}, 411),
        ({"Content-Length": str(MOST_BYTES + 1)}, 413),
        ({"Content-Length": "9" * 5000}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_other_requests(client: Client, headers: Mapping[str, str | None], status: int) -> None:
    known = {"port": client.port, "secret": client.server.secret}
    sent = {name: value and value.format(**known) for name, value in headers.items()}
    encoded = {name: value and value.encode().decode("latin-1") for name, value in sent.items()}
    answer = client.ask(headers=encoded)
    assert answer.status == status
    assert json.loads(answer.body)["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b"{",
        b"[" * 100_000,
        b'{"policy": "p"}',
        b'{"policy": "p", "log": 1, "width": 1}',
        b'{"policy": "p", "log": "", "width": true}',
        b'{"policy": "p", "log": "", "width": 1.5}',
        b'{"policy": "p", "log": "", "width": 1, "log_name": 1}',
        b'{"policy": "p", "log": "", "width": 1, "is_example": 1}',
    ],
)
def test_other_bodies(client: Client, body: bytes) -> None:
    assert client.ask(body).status == 400


def test_the_action_is_that_of_the_path(client: Client) -> None:
    request: dict[str, object] = {"policy": "p", "log": "", "width": 5, "action": "export"}
    answer = client.ask({**request, "command": ["rm"]})
    assert json.loads(answer.body) == {**request, "action": "run"}
    assert client.ask(request, action="delete").status == 404
    assert client.ask(request, action="").status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"])
def test_other_methods(client: Client, method: str) -> None:
    answer = client.send(method)
    assert answer.status == 501
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_run_that_fails_says_so(client: Client) -> None:
    answer = client.ask({"policy": "fail", "log": "", "width": 5})
    assert answer.status == 500
    assert "out of order" in json.loads(answer.body)["error"]


def test_a_later_request_takes_the_place_of_an_earlier_one(client: Client) -> None:
    answers: list[Answer] = []
    first = threading.Thread(
        target=lambda: answers.append(client.ask({"policy": "a", "log": "never", "width": 5}))
    )
    first.start()
    wait_until(lambda: client.server.workers._running)
    assert client.ask({"policy": "b", "log": "", "width": 5}).status == 200
    first.join()
    # no error, which the console of a browser would list
    assert (answers[0].status, json.loads(answers[0].body)) == (200, {"superseded": True})


def test_requests_of_different_kinds_do_not_disturb_each_other(tmp_path: Path) -> None:
    workers = Workers(COMMAND, seconds=20)
    found: list[bytes] = []
    answered = tmp_path / "answered"
    request = json.dumps({"policy": "a", "log": str(answered)}).encode()
    thread = threading.Thread(target=lambda: found.append(workers.answer("run", request)))
    thread.start()
    wait_until(lambda: workers._running)
    assert b"b" in workers.answer("why", b'{"policy": "b", "log": ""}')
    assert not found
    answered.touch()
    thread.join()
    assert b"a" in found[0]
    workers.close()


def test_a_request_that_takes_too_long_is_ended() -> None:
    workers = Workers(COMMAND, seconds=0.3)
    with pytest.raises(TooLong):
        workers.answer("run", b'{"policy": "a", "log": "never"}')
    assert workers._running == {}
    workers.close()
    with pytest.raises(WorkerFailed, match="ended"):
        workers.answer("run", b'{"policy": "a", "log": ""}')


def test_no_process_is_left() -> None:
    workers = Workers(COMMAND, seconds=20)
    workers.prepare()
    spare = workers._spare
    assert spare is not None
    with pytest.raises(WorkerFailed, match="order"):
        workers.answer("run", b'{"policy": "fail", "log": ""}')
    assert spare.poll() == 1
    other = workers._spare
    assert other is not None
    assert other.poll() is None
    workers.close()
    assert other.poll() is not None


def test_a_process_that_has_died_is_replaced() -> None:
    workers = Workers(COMMAND, seconds=20)
    workers.prepare()
    spare = workers._spare
    assert spare is not None
    spare.kill()
    spare.wait()
    assert b"a" in workers.answer("run", b'{"policy": "a", "log": ""}')
    workers.close()


def raw(client: Client, request: bytes) -> bytes:
    """What the server answers to these bytes."""
    import socket

    with socket.create_connection(("127.0.0.1", client.port), timeout=120) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while block := connection.recv(65536):
            answer += block
        return answer
