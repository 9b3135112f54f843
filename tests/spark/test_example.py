"""The example, run in the session that is there."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_violations_are_those_that_the_command_finds(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.version
    runpy.run_path(str(EXAMPLES / "spark.py"), run_name="__main__")
    shown = capsys.readouterr().out.splitlines()
    decided = []
    for log in sorted(EXAMPLES.glob("*.log")):
        path = log.with_suffix(".verdicts")
        lines = path.read_text(encoding="utf-8").splitlines()
        decided += [
            f"{path.stem}: {line[:-6]} is violated" for line in lines if line.endswith(" false")
        ]
    # the table tells the end of the logs, which leaves less undecided
    assert decided and set(decided) <= set(shown)
