"""What policy files can say and Spark cannot do is refused before any job starts."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.policies import compile_policies


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("key ip\npolicy p: q", "a line with key, .*: pass key=... to this function"),
        ('time "at"\npolicy p: q', "a line with time"),
        ('event "what"\npolicy p: q', "a line with event"),
        ('zone "UTC"\npolicy p: q', "a line with zone, .*: compute columns"),
        ("policy p: count[0,5](x > 2) < 3", r"count\[0,5\]\(x > 2\) < 3 depends on other rows"),
        ("stream s = x.last()\npolicy p: s < 3", "the condition s < 3 depends on other rows"),
        ("policy p on every 10: q", "policy p is on every 10"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        compile_policies(text, "local", has_keys=True)


def test_conditions_on_the_row_itself_are_not_refused() -> None:
    policies = compile_policies(
        "policy p per k: x > 2 and once[0,5] y is null", "local", has_keys=True
    )
    assert set(policies.predicates) == {"x > 2", "y is null"}
