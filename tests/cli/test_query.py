"""The subcommand `mtlmon query`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.cli.process import mtlmon

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def doors(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text("ts,door\n1,a\n4,b\n30,a\n")
    path = tmp_path / "doors.mtl"
    path.write_text(
        "unit s\nrelation open = rows valid 10s group select count() as n\n"
        "relation doors = rows valid 10s select door as door\n"
    )
    return path


def test_formats(doors: Path, tmp_path: Path) -> None:
    log = str(tmp_path / "log.csv")
    done = mtlmon("query", str(doors), "open", log)
    assert (done.status, done.errors) == (0, "")
    assert done.output.splitlines()[1] == '{"start":4,"end":11,"n":2}'
    target = tmp_path / "open.csv"
    assert mtlmon("query", "--output-format", "csv", "-o", str(target), str(doors), "open", log)
    assert target.read_text() == "start,end,n\n1,4,1\n4,11,2\n11,14,1\n30,40,1\n"
    target = tmp_path / "open.parquet"
    done = mtlmon("query", "--output-format", "parquet", "-o", str(target), str(doors), "open", log)
    assert done.status == 0
    assert pq.read_table(target).column("n").to_pylist() == [1, 2, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no policy file: name one (see mtlmon query --help)"),
        (["{rules}"], "no relation: name one behind the policy file (see mtlmon query --help)"),
        (["{rules}", "opn", "{log}"], "there is no relation opn; did you mean 'open'?"),
        (["{rules}", "open"], "the relation reads the rows of a log: name a table"),
        (["{rules}", "open", "-"], "the log must be a file, not standard input (see mtlmon query"),
        (["{rules}", "open", "nothing.csv"], "cannot read nothing.csv: No such file"),
        (
            ["{rules}", "open", "/dev/null"],
            "/dev/null: the name does not tell the format: say it with --format, one of csv,",
        ),
        (["-o", "{log}", "{rules}", "open", "{log}"], "{log} is both the log and the file"),
        (["--max-memory", "9", "{rules}", "open", "{log}"], "the memory limit of 9 bytes is"),
        (["{none}", "open", "{log}"], "{none} declares no relations"),
    ],
)
def test_errors(doors: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "none.mtl").write_text("policy p: a\n")
    names = {name: str(tmp_path / name) for name in ("log.csv", "none.mtl")}
    names = {"rules": str(doors), "log": names["log.csv"], "none": names["none.mtl"]}
    done = mtlmon("query", *(one.format(**names) for one in arguments))
    assert done.status == 2
    assert done.errors.startswith(f"mtlmon: {message.format(**names)}")
    assert (tmp_path / "log.csv").read_text().startswith("ts,door\n")
