"""Policies with variables that take in each batch of a log before other policies do."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from mtlmon.relational.native import AnswerBlock
from mtlmon.relational.output.native import AnswerQueue

if TYPE_CHECKING:
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.running import RelationalRun
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.relations import RelationRows

__all__ = ["RelationsAhead"]

_ALL = (1 << 64) - 1


class RelationsAhead:
    """Keeps what policies with variables find until other policies have come as far.

    Args:
        made: the plan of these policies.

    Attributes:
        queue: takes the answers of a run of these policies.
    """

    def __init__(self, made: Plan) -> None:
        widths = array("I", [len(one.variables) for one in made.named_policies])
        self.queue = AnswerQueue(widths)
        self._ready = AnswerBlock(widths)

    def feed(
        self, run: RelationalRun, rows: RelationRows | None, batch: EventBatch | None
    ) -> list[int]:
        """Check a batch; return after how many of its events there are answers.

        Args:
            run: the run, which writes to the queue.
            rows: makes time-points of batches; None if there are time-points already.
            batch: the batch, if time-points are made of it.
        """
        before = run.engine.point_count
        if rows is None or batch is None:
            run.advance()
        else:
            rows.load(batch)
            more = True
            while more:
                more = rows.read()
                run.advance(keeps_texts=more or len(self.queue) > 0)
        return [known - before for known in self.queue.known()]

    def found(self, position: int | None = None) -> AnswerBlock:
        """Return what the first events of the log have answered, or all; the caller takes it."""
        self.queue.take(self._ready, _ALL if position is None else position)
        return self._ready
