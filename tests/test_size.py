"""The count of lines: code, and not what is said about it."""

from __future__ import annotations

from tests.size import capabilities, code_lines

SOURCE = '''
"""Docstring,
of two lines."""
# a comment

import os  # counts

def f(a,  # two
      b):
    """A "docstring"."""
    text = """three
    # no comment

    """ + os.sep  # of four
    'also a docstring'
    "not one".upper()
    call(
        "an argument",
    )
    return 0x1FULL \\
        + 1
'''


def test_docstrings_comments_and_blanks_do_not_count() -> None:
    assert code_lines(SOURCE) == 1 + 2 + 4 + 1 + 3 + 2


def test_a_file_where_capabilities_meet_says_so_in_its_path() -> None:
    assert capabilities("mtlmon/streams/late_ticks.py") == ["streams", "late rows"]
    assert capabilities("mtlmon/testing/report.py") == ["pytest", "findings"]
    assert capabilities("mtlmon/testing/valuations.py") == ["pytest", "variables"]
    assert capabilities("mtlmon/spark/common/both_kinds.py") == ["Spark", "formulas", "variables"]
    assert capabilities("mtlmon/spark/java.py") == ["Spark"]
    assert capabilities("mtlmon/checking/late_bounds.py") == ["keys of policies", "late rows"]
    assert capabilities("mtlmon/testing/checking.py") == ["pytest"]
