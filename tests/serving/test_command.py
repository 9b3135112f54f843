"""The subcommand `mtlmon serve`: its arguments, its files, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.cli.process import mtlmon
from tests.doors import MOST_TEXT_BYTES, main
from tests.serving.process import Serve


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_quietly(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "a b.mtl").write_text("p")
    with Serve("--port", "0", str(tmp_path / "a b.mtl")) as serve:
        with urllib.request.urlopen(serve.address) as page:
            assert '<code class="name">a b.mtl</code>' in page.read().decode()
        before = set(tmp_path.iterdir())
        assert serve.end(number) == (0, "", "")
    assert set(tmp_path.iterdir()) == before


def test_a_run_over_http() -> None:
    with Serve("--port", "0", "--set", "w=5") as serve:
        secret, origin = serve.address.split("/")[3], serve.address.rsplit("/", 2)[0]
        policy = "const w = 1\npolicy p: q IMPLIES ONCE[0,w] p"
        request = urllib.request.Request(
            f"{serve.address}run",
            json.dumps({"policy": policy, "log": "@1 p\n@5 q\n@9 q", "width": 500}).encode(),
            {
                "Origin": origin,
                "X-Mtlmon-Secret": secret,
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request) as response:
            answer = json.load(response)
        assert (answer["outcome"], answer["lines"]) == ("1 violation, 3 events", [3])


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = mtlmon("serve", "--port", str(port))
    assert done.status == 2
    assert done.errors == (
        f"mtlmon: cannot use port {port}: Address already in use; name another one with --port, "
        "or --port 0 for any that is free\n"
    )


def test_what_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "a.log": b"@1 \xff",
        "b.csv": b"\x1f\x8b\x08\x00",
        "c.csv.gz": b"ts,x",
        "d.parquet": b"PAR1",
    }
    (tmp_path / "p.mtl").write_text("p")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert main(["serve", str(tmp_path / "p.mtl"), str(tmp_path / name)]) == 2
        assert "is not text in UTF-8" in capsys.readouterr().err
    with open(tmp_path / "large.log", "wb") as file:
        os.truncate(file.fileno(), MOST_TEXT_BYTES + 1)
    assert main(["serve", str(tmp_path / "p.mtl"), str(tmp_path / "large.log")]) == 2
    assert "more than 4 MiB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.mtl"], "cannot read none.mtl: No such file or directory"),
        (["a", "b", "c"], "one policy file and one log: leave out c (see mtlmon serve --help)"),
        (["-"], "the page needs files: standard input is not shown (see mtlmon serve --help)"),
        (["--port", "70000"], "argument --port: a port is a number from 0 to 65535, not 70000"),
        (["--port", "x"], "argument --port: a port is a number from 0 to 65535, not x"),
        (["--prot", "1"], "unrecognized arguments: --prot (did you mean --port?)"),
        (["--format", "parquet"], "argument --format: invalid choice: 'parquet'"),
        (
            ["--format", "csv", "--pattern", "nginx"],
            "--pattern reads lines of text: leave out --format",
        ),
        (["--export", "no/such/page.html"], "cannot write no/such/page.html"),
    ],
)
def test_errors_of_use(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.dup(0)
    try:
        assert main(["serve", *arguments]) == 2
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert capsys.readouterr().err.startswith(f"mtlmon: {message}")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    assert "--export FILE" in capsys.readouterr().out
