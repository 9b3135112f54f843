"""Lines that count others are found, and no byte is lost, however a log is cut into blocks."""

from __future__ import annotations

import pytest

from tests.doors import CountedLines

LOG = b"@1 p\n!@3 1\n!\n!p\n@4 q !\n!@[4,9) 2\n!@x\n!@5 1 p\n@9 p\n!@10 1\n"


def parts_of(blocks: list[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """The lines that are left, counts among them as events of their ends, and the counts."""
    lines = CountedLines()
    parts = [part for block in blocks for part in lines.parts(memoryview(block))]
    found, counts = b"", []
    for part, corrections in [*parts, *lines.rest()]:
        found += bytes(part)
        if corrections is not None:
            assert corrections.counted is not None
            counts += [(int(start), int(number)) for start, number in corrections.counted]
    return found, counts


@pytest.mark.parametrize("last", [b"", b"!", b"!@11 2", b"!@11 2 p", b"@11 p"])
def test_blocks_make_no_difference(last: bytes) -> None:
    """Rationale: a block that ends behind "!" may go on as a line that counts, or as another."""
    log = LOG + last
    counts = [(0, 1), (4, 2), (0, 1), *([(0, 2)] if last == b"!@11 2" else [])]
    whole = parts_of([log])
    assert whole[1] == counts
    assert whole[0].startswith(
        b"@1 p\n@3   \n!\n!p\n@4 q !\n@9       \n!@x\n!@5 1 p\n@9 p\n@10   \n"
    )
    for first in range(len(log)):
        for second in range(first, min(len(log), first + 6)):
            assert parts_of([log[:first], log[first:second], log[second:]]) == whole
