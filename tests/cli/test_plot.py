"""Pictures of streams: what they show, and what they refuse."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import mtlmon, shell

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
pytest.importorskip("matplotlib", reason="matplotlib (mtlmon[plot]) is not installed")

FILE = """\
unit s
key ip
stream fails = count[0,2m](status = 401)
stream path_now = path
policy brute: fails < 2
policy all per none: count[0,1m]() < 4
"""
ROWS = "ts,ip,status,path\n1,a,401,/x\n2,b,200,/y\n5,a,401,/x\n70,a,200,\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(FILE)
    log.write_text(ROWS)
    return rules, log


def test_a_picture_has_streams_keys_and_violations(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    target = tmp_path / "picture.svg"
    ended = mtlmon("streams", "--plot", str(target), *map(str, files))
    assert ended == (0, "", "")
    picture = target.read_text()
    for comment in (
        "fails", "path_now", "/x", "violations", "brute (2)", "all (0)", "a", "b", "time (s)",
        "window of the highest value, 2",
    ):  # fmt: skip
        assert f"<!-- {comment} -->" in picture
    again = tmp_path / "again.svg"
    mtlmon("streams", "--plot", str(again), *map(str, files))
    assert len(again.read_bytes()) == len(target.read_bytes())


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        ("stream s = x", 2),
        ("stream s = coalesce(x, 0)", 1),
        # no rows from 20 to 60: there are ticks still
        ("stream s = count[0,10s]() every 10s", 1),
        ("stream s = max[0,10s](x) every 10s", 2),
    ],
)
@pytest.mark.parametrize("copies", [1, 3000])
def test_lines_have_gaps_where_there_are_no_values(
    tmp_path: Path, stream: str, lines: int, copies: int
) -> None:
    rules, log, target = tmp_path / "rules.mtl", tmp_path / "log.csv", tmp_path / "picture.svg"
    rules.write_text(f"unit s\n{stream}\n")
    values = {1: 5, 3: 6, 12: 7, 20: "", 60: 8, 62: 9}
    rows = "".join(f"{time},{value}\n" * copies for time, value in values.items())
    log.write_text(f"ts,x\n{rows}")
    ended = mtlmon("streams", "--plot", str(target), str(rules), str(log))
    assert ended == (0, "", "")
    line = r'<path d="([^"]*)" clip-path="[^"]*" style="fill: none; stroke: #2563a8'
    (path,) = re.findall(line, target.read_text())
    assert path.count("M") == lines


def test_pictures_can_have_pixels_and_dates(files: tuple[Path, Path], tmp_path: Path) -> None:
    rules, log = files
    log.write_text(
        "ts,ip,status,path\n2024-05-03T05:59:00Z,a,401,/x\n2024-05-03T06:59:00Z,a,401,/x\n"
    )
    target = tmp_path / "picture.png"
    assert mtlmon("streams", "--plot", str(target), str(rules), str(log)) == (0, "", "")
    assert target.read_bytes().startswith(b"\x89PNG")


def test_a_log_that_cannot_be_read_again_has_no_violations(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    rules, _ = files
    target = tmp_path / "picture.svg"
    ended = mtlmon("streams", "--format", "csv", "--plot", str(target), str(rules), "-", log=ROWS)
    assert ended == (0, "", "")
    assert "<!-- fails -->" in target.read_text()
    assert "violations" not in target.read_text()


def test_what_cannot_be_drawn_is_an_error(files: tuple[Path, Path], tmp_path: Path) -> None:
    rules, log = files
    named = [str(rules), str(log)]
    ended = mtlmon("streams", "--plot", "picture.gif", *named)
    assert (ended.status, ended.errors.partition(" (see")[0]) == (
        2,
        "mtlmon: --plot writes .svg and .png, not picture.gif",
    )
    assert mtlmon("streams", "--plot", "p.svg", "-o", "x.csv", *named).status == 2
    ended = mtlmon("streams", "--plot", str(tmp_path / "no" / "p.svg"), *named)
    assert ended.status == 2
    assert "cannot write" in ended.errors
    log.write_text("ts,ip,status,path\n")
    ended = mtlmon("streams", "--plot", str(tmp_path / "p.svg"), *named)
    assert (ended.status, ended.errors) == (
        2,
        "mtlmon: there is nothing to draw: the log has no rows\n",
    )


def test_matplotlib_is_imported_only_for_pictures(files: tuple[Path, Path]) -> None:
    code = (
        "import sys; from mtlmon.cli import main; "
        f"main(['streams', {str(files[0])!r}, {str(files[1])!r}]); "
        "sys.exit('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("from_input", [False, True])
def test_a_picture_of_a_text_log(tmp_path: Path, from_input: bool) -> None:
    rules, log, target = tmp_path / "rules.mtl", tmp_path / "log", tmp_path / "picture.svg"
    rules.write_text("unit s\nstream fails = count[0,9](failed)\npolicy few: fails < 2\n")
    log.write_text("@1 failed\n@2 failed\n@7\n@30 failed\n")
    named = '- < "$3"' if from_input else '"$3"'
    script = f'$M streams --plot "$1" "$2" {named}'
    assert shell(script, str(target), str(rules), str(log)) == (0, "", "")
    picture = target.read_text()
    for comment in ("fails", "few (2)", "time (s)"):
        assert f"<!-- {comment} -->" in picture
