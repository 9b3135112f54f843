"""Blocks that slices take in on threads: in order, and no more of them after an error."""

from __future__ import annotations

from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.slicing import plan_slices
from tests.doors import (
    BlockRunner,
    PointBlock,
    RelationalEngine,
    Router,
    SplitBlock,
    Splitter,
    Timeline,
    plan,
    routing_of,
)

POLICY = "atom p(x: int)\nfind a: p(x) AND ONCE[0,9] p(x)\n"
SLICES = 3


class Slices:
    """Slices on threads, and what the runner says of their blocks."""

    def __init__(self) -> None:
        file = parse_policies(POLICY)
        analysis = analyse(file)
        slicing = plan_slices(file, analysis, SLICES)
        made = plan(file, analysis, prepared=slicing.prepared)
        timeline = Timeline(made)
        self.widths = array("I", made.atoms)
        router = Router(routing_of(slicing, made), made.texts)
        self.splitter = Splitter(router, timeline, [True] * SLICES)
        self.engines = [RelationalEngine(made, made.texts, timeline) for _ in range(SLICES)]
        self.begun: list[SplitBlock] = []
        self.ended: list[SplitBlock] = []
        self.fails_at = self.stops_at = 0
        parts = [[one] for one in enumerate(self.engines)]
        self.runner = BlockRunner(parts, self.begin, self.end, ThreadPoolExecutor(SLICES))

    def block(self, time_stamp: int) -> SplitBlock:
        points, block = PointBlock(self.widths), SplitBlock(self.splitter, self.widths)
        points.add(time_stamp, [(0, (number,)) for number in range(9)])
        self.splitter.split(points, block)
        return block

    def begin(self, block: SplitBlock) -> None:
        self.begun.append(block)
        self.splitter.commit(block)

    def end(self, block: SplitBlock) -> bool:
        self.ended.append(block)
        # each slice has taken in this block and those before
        assert {one.point_count for one in self.engines} == {len(self.ended)}
        if len(self.ended) == self.fails_at:
            raise ArithmeticError("at the end of a block")
        return len(self.ended) != self.stops_at


def test_blocks_are_taken_in_in_order() -> None:
    slices = Slices()
    blocks = [slices.block(time_stamp) for time_stamp in range(50)]
    for block in blocks:
        slices.runner.put(block)
    slices.runner.settle()
    assert slices.begun == slices.ended == blocks
    slices.runner.close()


def test_threads_start_again_after_they_have_waited() -> None:
    slices = Slices()
    for count in range(1, 20):
        slices.runner.put(slices.block(count))
        slices.runner.settle()
        assert len(slices.ended) == count
    slices.runner.close()


def test_an_error_is_raised_where_one_waits() -> None:
    slices = Slices()
    slices.fails_at = 2
    slices.runner.put(slices.block(0))
    slices.runner.put(slices.block(1))
    with pytest.raises(ArithmeticError, match="at the end of a block"):
        slices.runner.settle()
    assert len(slices.ended) == 2
    # it is raised once
    slices.runner.settle()
    slices.runner.close()


def test_nothing_follows_where_slices_stop() -> None:
    slices = Slices()
    slices.stops_at = 1
    slices.runner.put(slices.block(0))
    slices.runner.put(slices.block(1))
    slices.runner.settle()
    slices.runner.put(slices.block(2))
    slices.runner.settle()
    assert len(slices.begun) == len(slices.ended) == 1
    slices.runner.close()
