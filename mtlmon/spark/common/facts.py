"""Adds what policy files say of their policies to data frames of verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.spark.common.ordering import column_named
from mtlmon.spark.common.verdicts import POLICY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from mtlmon.policy import PolicyFile


def with_facts(verdicts: DataFrame, file: PolicyFile | None) -> DataFrame:
    """Return verdicts with columns `severity` and `text` at the end, as far as policies have these.

    The text is there for violations, and for what a `find` matches. Names that other columns have
    get the prefix `policy_`.

    Args:
        verdicts: rows with the columns `policy` and `verdict`.
        file: the policies; None for a formula.
    """
    from pyspark.sql import functions as F

    if file is None:
        return verdicts
    facts = PolicyFacts(file.policies)
    # Spark's names of columns do not depend on case
    names = facts.columns([name.lower() for name in verdicts.columns])
    columns: dict[str, Column] = {}
    if "severity" in names:
        severities = {one.name: one.severity for one in file.policies}
        columns[names["severity"]] = _looked_up(severities)
    if "text" in names:
        finds = [one.name for one in file.policies if one.is_find]
        is_emitted = ~column_named("verdict")
        if finds:
            is_emitted |= column_named("verdict") & column_named(POLICY).isin(finds)
        texts = {one.name: one.text or None for one in file.policies}
        columns[names["text"]] = F.when(is_emitted, _looked_up(texts))
    return verdicts.withColumns(columns) if columns else verdicts


def _looked_up(values: Mapping[str | None, str | None]) -> Column:
    """Return the value of the policy of a row; null if it has none."""
    from pyspark.sql import functions as F

    known = {name: value for name, value in values.items() if name and value is not None}
    cells = [F.lit(cell) for pair in known.items() for cell in pair]
    return F.try_element_at(F.create_map(*cells), column_named(POLICY))
