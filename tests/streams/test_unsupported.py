"""What policy files can say and nothing evaluates yet is refused, not ignored."""

from __future__ import annotations

import pyarrow as pa
import pytest

import mtlmon
from mtlmon.errors import MtlmonError

ROWS = pa.table({"ts": [1, 2], "x": [3, 4]})


def test_what_the_file_says_about_the_log_is_used() -> None:
    rows = pa.table({"at": [1, 2, 3], "who": ["a", "b", "a"], "what": ["p", "q", "q"]})
    text = 'time "at"\nevent "what"\nkey who\npolicy x: once p'
    verdicts = mtlmon.check(text, rows).to_arrow().to_pylist()
    assert [(row["who"], row["time"], row["verdict"]) for row in verdicts] == [
        ("a", 1, True),
        ("b", 2, False),
        ("a", 3, True),
    ]
    replaced = mtlmon.check(text, rows, key="what").to_arrow().to_pylist()
    assert [row["what"] for row in replaced] == ["p", "q", "q"]


def test_errors_of_types_name_the_stream() -> None:
    rows = pa.table({"ts": [1, 2], "x": ["a", "b"]})
    with pytest.raises(MtlmonError, match="stream s: '>' compares column x of type string"):
        mtlmon.check("stream s = count[0,5](x > 3)\npolicy p: s < 2", rows).to_arrow()


def test_a_stream_that_reads_itself_has_the_type_that_is_declared() -> None:
    text = "stream n: bool = if n.last(or: true) then x else 0\npolicy p: n"
    with pytest.raises(MtlmonError, match="stream n: the predicate is an integer, not true or"):
        mtlmon.check(text, ROWS)
