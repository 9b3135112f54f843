"""CSV that spreadsheets do not compute: `--csv-safe`."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

from tests.cli.process import mtlmon
from tests.doors import row_output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXTS = ["=1+2", "+1", "-5", "@x", "\tx", "\rx", "a=b", " =1", "'=", "", "é=", '"=']
SAFE = [f"'{text}" if text[:1] in tuple("=+-@\t\r") and text else text for text in TEXTS]


def written(text: str) -> list[list[str]]:
    return [*csv.reader(io.StringIO(text, newline=""))]


class Rows:
    """Texts and numbers, and a column with the name of a formula."""

    schema = pa.schema([("=t", pa.string()), ("d", pa.dictionary(pa.int32(), pa.string()))])

    def batches(self, texts: list[str]) -> Iterator[pa.RecordBatch]:
        kinds = [pa.array(texts), pa.array(texts).dictionary_encode()]
        numbers = pa.array([*range(-1, len(texts) - 1)])
        yield pa.RecordBatch.from_arrays([*kinds, numbers], names=["=t", "d", "n"])


@pytest.mark.parametrize("csv_safe", [False, True])
def test_texts_of_every_kind(csv_safe: bool) -> None:
    output = row_output(Rows(), "csv", csv_safe=csv_safe)
    output.put(TEXTS)
    output.close()
    header, *rows = written(output.writer.take().decode())
    texts = SAFE if csv_safe else TEXTS
    assert header == ["'=t" if csv_safe else "=t", "d", "n"]
    assert [row[0] for row in rows] == [row[1] for row in rows] == texts
    # numbers are computed by nobody
    assert [row[2] for row in rows] == [str(number) for number in range(-1, len(texts) - 1)]


def test_every_command_that_writes_csv(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,user,p\n1,=1+2,true\n2,-5,false\n3,ann,true\n")
    asked = ["--output-format", "csv", "--csv-safe"]
    verdicts = mtlmon("-e", "p", "--key", "user", *asked, str(log)).output
    assert [row[1] for row in written(verdicts)[1:]] == ["'=1+2", "'-5", "ann"]
    policies = tmp_path / "p.mtl"
    policies.write_text("unit s\nstream who = user\n")
    values = mtlmon("streams", *asked, str(policies), str(log)).output
    assert "'=1+2" in values and "'-5" in values and "'ann" not in values
    for command in (["-e", "p"], ["streams", str(policies)], ["query", str(policies), "r"]):
        ended = mtlmon(*command, "--csv-safe", str(log))
        assert (ended.status, ended.output) == (2, "")
        assert "--csv-safe is for CSV: add --output-format csv" in ended.errors
