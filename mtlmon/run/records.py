"""`mtlmon.query`: the records of a relation for programs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack, overload

from mtlmon.policy import PolicyFile
from mtlmon.policy.several import require_no_path
from mtlmon.policy.validity.building import Relation
from mtlmon.run.answers import Answer
from mtlmon.run.keywords import QueryOptions, refuse, require_file, spec_of
from mtlmon.run.library import Program, Run, advised, require_no_idle, with_events
from mtlmon.run.option_rules import consistent_query
from mtlmon.run.queries import declaring, records_of, settled_for_rows
from mtlmon.run.standing_queries import is_standing
from mtlmon.support.option_names import PYTHON

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.formats.files import Tables

__all__ = ["Records", "query"]


class Records(Run):
    """The records of a relation, in order: a run that has ended, and all that a table of Arrow is.

    It can be read as often as one likes. What it does not have itself, such as `filter` or
    `sort_by`, is that of `to_arrow()`.

    If the relation is evaluated while the log is read, it is a run whose records are iterated as
    they come, once; what needs a table reads all that are left.
    """

    def __init__(self, spec: RunSpec, file: PolicyFile, relation: str, host: Program) -> None:
        super().__init__(spec, records_of(file, relation, spec), host, None)
        self._table: pa.Table | None = None
        self._one_by_one: Iterator[Answer] | None = None
        if is_standing(file, relation, spec):
            return
        if spec.output.path is None:
            self._table = super().to_arrow()
        else:
            self.finish()

    def to_arrow(self) -> pa.Table:
        """Return the records as a table.

        Raises:
            RunError: they are in a file.
        """
        if self._table is None:
            self._table = super().to_arrow()
        return self._table

    def __iter__(self) -> Iterator[Answer]:  # type: ignore[override]
        if self._table is None:
            while (answer := self._next_answer()) is not None:
                yield answer
            return
        for batch in self._table.to_batches():
            yield from map(Answer, batch.to_pylist())

    def __next__(self) -> Answer:
        if self._one_by_one is None:
            self._one_by_one = iter(self)
        return next(self._one_by_one)

    def _next_answer(self) -> Answer | None:
        """Return the next record that comes; None if there are no more."""
        try:
            return super().__next__()
        except StopIteration:
            return None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the records as record batches."""
        yield from super().batches() if self._table is None else self._table.to_batches()

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the records as dictionaries."""
        records: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return records

    @property
    def schema(self) -> pa.Schema:
        """The columns: `start`, `end`, and those of the relation."""
        return self.to_arrow().schema

    @property
    def num_rows(self) -> int:
        """How many records there are."""
        return len(self)

    def column(self, name: str | int) -> pa.ChunkedArray:
        """Return a column by its name or number."""
        return self.to_arrow().column(name)

    def __len__(self) -> int:
        count: int = self.to_arrow().num_rows
        return count

    def __getitem__(self, key: Any) -> Any:
        return self.to_arrow()[key]

    def __eq__(self, other: object) -> bool:
        mine = self.to_arrow()
        return bool(mine == (other.to_arrow() if isinstance(other, Records) else other))

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.to_arrow(), name)

    def __repr__(self) -> str:
        if self._table is None:
            return super().__repr__()
        return f"<{type(self).__name__}>\n{self._table}"


@overload
def query(
    policies: PolicyFile | str | os.PathLike[str],
    relation: str,
    tables: Tables | Sequence[Tables] | Mapping[str, Tables] = ...,
    **options: Unpack[QueryOptions],
) -> Records: ...
@overload
def query(
    policies: Relation,
    relation: Tables | Sequence[Tables] | Mapping[str, Tables] = ...,
    **options: Unpack[QueryOptions],
) -> Records: ...
def query(
    policies: PolicyFile | str | os.PathLike[str] | Relation,
    relation: str | Tables | Sequence[Tables] | Mapping[str, Tables] = (),
    tables: Tables | Sequence[Tables] | Mapping[str, Tables] = (),
    **options: Unpack[QueryOptions],
) -> Records:
    """Evaluate a relation that a policy file declares, or one that `mtlmon.relations` builds.

    A relation that is built has no name to give: `query(relation, tables)`.

    Args:
        policies: a policy file as `parse_policies` returns it, the text of one, or the path of one
            as an object of `pathlib`.
        relation: the name of the relation.
        tables: the log, as `mtlmon.check` takes it; relations of tables alone need none. Or a
            dictionary of tables by the names that relations call them, in which `rows` is the log.
        options: those of `mtlmon query`, by the same words: `format`, `pattern`, `time`,
            `time_unit`, `time_format`, `time_zone`, `resolution`, `unit`, `set`, `null_values`,
            `delimiter`, `quote`, `decimal`, `on_error`, `sort`, `max_memory`; `output`,
            `output_format` and `csv_safe`, which write the records to a file; `explain`, which says
            in `messages` how the relation is evaluated; `sort_memory`, how many bytes sorting
            uses, approximately, before it writes to disk; and those with which the relation is
            evaluated while the log is read: `follow`, `wait`, `late`, `lateness`, `consistency`,
            `arrival`, `op`, `id`, `complete`, `new_end`, `idle`, `checkpoint`, `checkpoint_every`,
            `resume`; and `end_time`, up to when the log is known.

    Returns:
        The records in order: `start` and `end`, integers in the unit of the time-stamps, where a
        null is no end, then the columns of the relation. They are read like a table of Arrow, and
        `pa.table`, Polars and DuckDB take them as one. The tables that the file names are looked
        for in its folder.

    Raises:
        TypeError: an option is unknown, or not of this type.
        MtlmonError: there is no such relation, it is not valid, or a file cannot be read.

    >>> import pyarrow as pa
    >>> rules = 'relation open = rows valid 10 group select count() as n'
    >>> rows = pa.table({"ts": [1, 4, 30], "door": ["a", "b", "a"]})
    >>> for record in query(rules, "open", rows):
    ...     print(record["start"], record["end"], record["n"])
    1 4 1
    4 11 2
    11 14 1
    30 40 1
    """
    host = Program()
    spec = spec_of("query", options, host, QueryOptions, PYTHON)
    built = policies if isinstance(policies, PolicyFile | Relation) else None
    events = tables
    if isinstance(policies, Relation):
        # the name is not given, so the log is in its place
        name, events = policies.shown_name, relation
    elif isinstance(relation, str):
        name = relation
    else:
        raise TypeError("query takes the name of a relation after the policy file")
    if isinstance(policies, str):
        require_no_path(policies)
        spec = spec.having(formula=policies)
    elif isinstance(policies, os.PathLike):
        spec = spec.having(formula_files=[os.fspath(policies)])
    elif built is None:
        raise TypeError(
            "the policies are a text, a PolicyFile, a Relation, or the path of a file as a "
            f"pathlib.Path; not {policies!r}"
        )
    if isinstance(events, Mapping):
        inputs = dict(events)
        events = inputs.pop("rows", ())
        spec = spec.having(inputs=inputs)
    if not isinstance(events, tuple | list) or events:
        spec = with_events(spec, events)
    with advised(spec):
        spec = consistent_query(refuse, _with_sink(spec, host))
        if spec.log.follow is not None:
            from mtlmon.run.followed_file import following

            spec, host.follower = following(spec)
        try:
            file = declaring(built, spec)
            return Records(settled_for_rows(file, spec), file, name, host)
        except BaseException:
            if host.follower is not None:
                # no run has it
                host.follower.close()
            raise


def _with_sink(spec: RunSpec, host: Program) -> RunSpec:
    """Let records be kept, if no file is named for them."""
    if spec.output.path is None:
        require_file(spec.output)
        require_no_idle(spec)
        return spec.having(output_format="batches", batch_output=host.batch_output)
    return spec.having(output_format=spec.output.given_format or "jsonl")
