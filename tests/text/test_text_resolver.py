"""Resolving text: prefixes apart, blocks cut anywhere, order within each prefix."""

from __future__ import annotations

import random

import pytest

from mtlmon import LogError
from tests.doors import TextResolver

Point = tuple[int, int]
Line = tuple[str, Point, bool | Point]

PREFIXES = ["", "k\t", "a\\tb\tc\t", "1:2 true\t", "\t", "größe\t", "x" * 300 + "\t"]


def text_of(line: Line) -> str:
    prefix, (time_stamp, offset), value = line
    if isinstance(value, tuple):
        return f"{prefix}{time_stamp}:{offset} = {value[0]}:{value[1]}\n"
    return f"{prefix}{time_stamp}:{offset} {'true' if value else 'false'}\n"


def random_lines(chance: random.Random, prefix: str, count: int) -> list[Line]:
    """Verdicts of one stream, each no more than 5 time units after the time-point."""
    lines: list[Line] = []
    undecided: list[Point] = []
    rate = chance.choice([1, 3, 20])
    for event in range(count):
        now = event // rate
        undecided.append((now, event % rate))
        for point in undecided[:]:
            place = undecided.index(point)
            if point[0] >= now - 5 and chance.random() < 0.7:
                continue
            if place > 0 and chance.random() < 0.6 and undecided[0][0] >= now - 5:
                lines.append((prefix, point, chance.choice(undecided[:place])))
            else:
                lines.append((prefix, point, chance.random() < 0.5))
            undecided.remove(point)
    return lines


def resolved_plainly(lines: list[Line]) -> dict[str, list[str]]:
    """For each prefix the resolved lines in the order of time-points, with a dictionary."""
    values: dict[tuple[str, Point], bool] = {}
    references = {(p, point): value for p, point, value in lines if isinstance(value, tuple)}
    for prefix, point, value in lines:
        if not isinstance(value, tuple):
            values[prefix, point] = value
    for prefix, point in references:
        root = point
        while (prefix, root) in references:
            root = references[prefix, root]
        if (prefix, root) in values:
            values[prefix, point] = values[prefix, root]
    ordered: dict[str, list[str]] = {}
    for (prefix, point), value in sorted(values.items()):
        ordered.setdefault(prefix, []).append(text_of((prefix, point, value)))
    return ordered


def run(resolver: TextResolver, text: bytes, chance: random.Random) -> list[str]:
    """All lines of output, the text cut at random."""
    output = b""
    start = 0
    while start < len(text):
        end = start + chance.choice([1, 7, 100, 5000])
        resolver.load(text[start:end])
        while resolver.run():
            output += resolver.writer.take()
        start = end
    resolver.load_end()
    while resolver.run():
        output += resolver.writer.take()
    resolver.end()
    while resolver.run():
        output += resolver.writer.take()
    return (output + resolver.writer.take()).decode().splitlines(keepends=True)


def interleaved(chance: random.Random) -> list[Line]:
    streams = [
        random_lines(chance, prefix, chance.choice([5, 200]))
        for prefix in chance.sample(PREFIXES, chance.randrange(1, len(PREFIXES) + 1))
    ]
    lines: list[Line] = []
    while streams := [stream for stream in streams if stream]:
        lines.append(chance.choice(streams).pop(0))
    return lines


@pytest.mark.parametrize("seed", range(40))
def test_random_streams(seed: int) -> None:
    chance = random.Random(seed)
    lines = interleaved(chance)
    expected = resolved_plainly(lines)
    text = "".join(map(text_of, lines)).encode()
    if chance.random() < 0.3:
        text = text.removesuffix(b"\n")
    plain = TextResolver()
    output = run(plain, text, chance)
    assert sorted(output) == sorted(line for mine in expected.values() for line in mine)
    assert run(TextResolver(), text, chance) == output
    assert plain.open_count == len(lines) - len(output)
    assert (plain.true_count, plain.false_count) == tuple(
        sum(line.endswith(f" {word}\n") for line in output) for word in ("true", "false")
    )
    for reach in (None, 5):
        ordered = run(TextResolver(in_order=True, reach=reach), text, chance)
        for prefix, mine in expected.items():
            assert [line for line in ordered if line.rpartition("\t")[0] + "\t" * ("\t" in line)
                    == prefix] == mine  # fmt: skip
    only_false = run(TextResolver(verdicts="false"), text, chance)
    assert only_false == [line for line in output if line.endswith(" false\n")]
    assert run(TextResolver(verdicts="none"), text, chance) == []


def test_values_do_not_wait_for_the_block_to_end() -> None:
    resolver = TextResolver()
    resolver.load(b"1:1 = 1:0\n1:0 true\n2:")
    assert not resolver.run()
    assert resolver.writer.take() == b"1:0 true\n1:1 true\n"
    resolver.load(b"0 false")
    assert not resolver.run()
    assert resolver.writer.take() == b""
    resolver.load_end()
    assert not resolver.run()
    assert resolver.writer.take() == b"2:0 false\n"


def test_many_prefixes_come_and_go() -> None:
    resolver = TextResolver()
    for number in range(20_000):
        resolver.load(b"k%d\t1:1 = 1:0\nk%d\t1:0 true\n" % (number, number))
        while resolver.run():
            pass
        assert resolver.writer.take() == b"k%d\t1:0 true\nk%d\t1:1 true\n" % (number, number)
    text = b"".join(b"k%d\t1:1 = 1:0\n" % number for number in range(20_000))
    resolver.load(text)
    while resolver.run():
        pass
    assert resolver.open_count == 20_000
    resolver.load(text.replace(b"1:1 = 1:0", b"1:0 false"))
    count = 0
    while resolver.run():
        count += resolver.writer.take().count(b"\n")
    assert count + resolver.writer.take().count(b"\n") == 40_000
    assert resolver.open_count == 0


def test_long_runs_come_out_in_blocks() -> None:
    resolver = TextResolver()
    count = 100_000
    resolver.load(b"".join(b"0:%d = 0:0\n" % offset for offset in range(1, count)))
    while resolver.run():
        pass
    resolver.load(b"0:0 true\n")
    output, blocks = b"", 0
    while resolver.run():
        block = resolver.writer.take()
        assert len(block) < 1 << 19
        output += block
        blocks += 1
    output += resolver.writer.take()
    assert blocks > 1
    assert output == b"".join(b"0:%d true\n" % offset for offset in range(count))


def test_verdicts_before_a_bad_line_are_written() -> None:
    resolver = TextResolver(path="x")
    resolver.load(b"1:0 true\nk\t1:1 = 1:0\nk\t1:0 false\nnonsense\n2:0 true\n")
    with pytest.raises(LogError, match="x:4:1: expected a time-stamp, found 'n'") as caught:
        resolver.run()
    assert (caught.value.line, caught.value.column) == (4, 1)
    assert resolver.writer.take() == b"1:0 true\nk\t1:0 false\nk\t1:1 false\n"
