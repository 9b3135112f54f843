"""Files that are not in UTF-8: what the command says of them, in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Ended, mtlmon

if TYPE_CHECKING:
    from pathlib import Path

ACCESS = '10.0.0.7 - jörg [23/Nov/2026:04:05:0{} +0000] "POST / HTTP/1.1" 401 -\n'
CSV = "ts,user,p\n1,jörg,true\n2,jürg,true\n3,ann,true\n"
FILES = {
    "csv": (["-e", "p", "--key", "user"], CSV),
    "tsv": (["-e", "p", "--key", "user"], CSV.replace(",", "\t")),
    "jsonl": (["-e", "p", "--key", "user"], '{"ts":1,"user":"jörg","p":true}\n{"ts":3,"p":true}\n'),
    "access": (["-e", "status=401", "--key", "user", "--pattern", "nginx"], ACCESS.format(1)),
    "logfmt": (["-e", "p", "--key", "user", "--pattern", "logfmt"], "ts=1 user=jörg p=true\n"),
    "log": (["-e", "p or größe"], "@1 p\n@2 größe p\n"),
    "mtl": ([], "policy x: p # größe\n"),
}
LATIN = "not UTF-8{}; if it is Latin-1 or Windows-1252, convert it: iconv -f WINDOWS-1252 -t UTF-8"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_named(name: str, encoding: str, tmp_path: Path) -> None:
    asked, text = FILES[name]
    path = tmp_path / f"file.{name}"
    path.write_bytes(text.encode(encoding))
    if encoding == "utf-32" or not encoding.endswith("e"):
        known = encoding.upper()
    else:
        known = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    said = f"{encoding.upper()[:6]} instead of UTF-8; convert it: iconv -f {known} -t UTF-8\n"
    ended = mtlmon(*asked, str(path))
    assert (ended.status, ended.output) == (2, "")
    assert ended.errors.startswith("mtlmon: ") and ended.errors.endswith(said)
    assert str(path) in ended.errors


@pytest.mark.parametrize("name", FILES)
def test_latin_1_is_named(name: str, tmp_path: Path) -> None:
    asked, text = FILES[name]
    path = tmp_path / f"file.{name}"
    path.write_bytes(text.encode("latin-1"))
    ended = mtlmon(*asked, str(path))
    assert ended.status == 2
    assert LATIN.format(" at byte 16" if name == "mtl" else "") in ended.errors
    place = {"csv": ":2", "tsv": ":2", "log": ":2:1", "mtl": ""}.get(name, ":1")
    assert f"{path}{place}: " in ended.errors


def test_rows_in_latin_1_are_left_out(tmp_path: Path) -> None:
    """Two users became one where their letters were replaced by the same mark."""
    path = tmp_path / "access.log"
    lines = [ACCESS.format(1), ACCESS.format(2).replace("jörg", "jürg"), ACCESS.format(3)]
    path.write_bytes("".join(lines[:2]).encode("latin-1") + lines[2].encode())
    asked = ["--pattern", "nginx", "--key", "user", "-e", "status = 401", "--on-error", "skip"]
    ended = mtlmon(*asked, str(path))
    assert (ended.status, ended.output) == (0, "jörg\t1795406703:0 true\n")
    assert "skipped 2 rows" in ended.errors
    # A column that is not read may be in any encoding; the mark itself is a character like others.
    path.write_bytes("".join(lines[:2]).encode("latin-1") + b"10.0.0.7 - \xef\xbf\xbd" + b"")
    ended = mtlmon("--pattern", "nginx", "-e", "status = 401", str(path))
    assert ended.output.count("true") == 2
    path.write_text(ACCESS.format(1).replace("jörg", "�"))
    assert mtlmon(*asked, str(path)) == Ended(0, "�\t1795406701:0 true\n", "")


def test_text_logs_in_latin_1_matter_only_for_other_letters(tmp_path: Path) -> None:
    path = tmp_path / "file.log"
    path.write_bytes("@1 größe p\n@2 p # größe\n".encode("latin-1"))
    assert mtlmon("-e", "p", str(path)) == Ended(0, "1:0 true\n2:0 true\n", "")
    path.write_bytes(b"@1 p\n" * 50_000 + "@1 größe p\n".encode("latin-1"))
    for more in ([], ["--on-error", "skip"], ["--wait", "5"]):
        ended = mtlmon("-e", "p and not größe", *more, str(path))
        assert (ended.status, LATIN.format("") in ended.errors) == (2, True)


def test_xes_says_its_encoding(tmp_path: Path) -> None:
    event = (
        '<event><string key="concept:name" value="jörg"/>'
        '<date key="time:timestamp" value="2024-05-01T08:00:00Z"/></event>'
    )
    text = f"<log><trace>{event}</trace></log>"
    path = tmp_path / "log.xes"
    asked = ["--event", "concept:name", "-e", "jörg", str(path)]
    path.write_bytes(text.encode("latin-1"))
    ended = mtlmon(*asked)
    assert ended.status == 2 and LATIN.format("") in ended.errors
    path.write_bytes(f'<?xml version="1.0" encoding="ISO-8859-1"?>{text}'.encode("latin-1"))
    assert mtlmon(*asked).output == "1714550400:0 true\n"
    path.write_bytes(text.encode("utf-16"))
    assert mtlmon(*asked).output == "1714550400:0 true\n"
