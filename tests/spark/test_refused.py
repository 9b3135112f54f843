"""What policy files can say and Spark cannot do is refused before any job starts."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.policies import compile_policies


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('pattern "x"\npolicy p: q', "a line with pattern, which only .*monitor_files"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        compile_policies(text, "local", has_keys=True)


@pytest.mark.parametrize("text", ["key ip\npolicy p: q", "policy p per ip: q"])
def test_keys_are_refused_where_there_is_one_trace(text: str) -> None:
    with pytest.raises(MtlmonError, match="support"):
        compile_policies(text, "local")


def test_conditions_on_other_rows_are_told_from_those_on_the_row_itself() -> None:
    policies = compile_policies(
        "policy p per k: x > 2 and once[0,5] count[0,3](failed) > 1", "local", has_keys=True
    )
    assert set(policies.predicates) == {"x > 2"}
    assert policies.remembering == ("count[0,3](failed) > 1",)
    assert policies.atoms == ("x > 2", "count[0,3](failed) > 1", "failed")
