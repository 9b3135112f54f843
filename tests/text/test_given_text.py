"""Text that a program gives as it comes: lines, read in blocks of any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.doors import GivenText

GIVEN = st.lists(st.lists(st.sampled_from([b"@1 p", b"@2", b"#", b""]), max_size=3), max_size=6)


@given(GIVEN, st.booleans(), st.integers(1, 9), st.integers(1, 3))
def test_lines_are_handed_on(
    given_lines: list[list[bytes]], has_end: bool, size: int, every: int
) -> None:
    """Whether the last line of a text has a line feed or not."""
    text = GivenText()
    block = memoryview(bytearray(size))
    read, wanted = b"", b""

    def read_all() -> int | None:
        nonlocal read
        while count := text.read_into(block):
            read += block[:count]
        return count

    for number, lines in enumerate(given_lines):
        part = b"\n".join(lines)
        wanted += part + b"\n" if part and not part.endswith(b"\n") else part
        text.put(part + b"\n" if has_end and part and not part.endswith(b"\n") else part)
        if number % every == 0:
            assert read_all() is None
            assert text.waits
            assert read == wanted
    assert read_all() is None
    text.end()
    assert read_all() == 0
    assert read == wanted


def test_text_that_has_not_been_read_can_be_dropped() -> None:
    text = GivenText()
    block = memoryview(bytearray(5))
    text.put(b"@1 p\n@2 q")
    assert text.read_into(block) == 5
    text.drop()
    text.put(b"@3")
    assert text.read_into(block) == 3
    assert bytes(block[:3]) == b"@3\n"
