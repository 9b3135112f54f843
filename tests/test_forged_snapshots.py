"""Snapshots that are damaged or forged: refused, and the object goes on as if nothing had come.

`tests/engine/test_forged_snapshots.py` does the same for the states of monitors, and has the
numbers and the limit of memory.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mtlmon import RelationalHistory, RelationalMonitor, SnapshotError
from tests.doors import joined_parts, sealed, split_parts, unsealed
from tests.engine.test_forged_snapshots import run_child
from tests.public_objects import CASES, POLICIES, relational_monitor

if TYPE_CHECKING:
    from collections.abc import Callable

# Streams are written without a digest, for snapshots that have one.
WITHOUT_DIGEST = {"KeyedMonitors"}
# A value for JSON, which a checkpoint holds.
WITHOUT_BYTES = {"Collector"}
WITH_SNAPSHOTS = [
    name
    for name, case in CASES.items()
    if hasattr(case.make(), "restore") and name not in WITHOUT_DIGEST | WITHOUT_BYTES
]


def damaged(source: random.Random, snapshot: bytes) -> bytes:
    """A snapshot with a bit that is not as it was, or without its end, or without some bytes."""
    place = source.randrange(len(snapshot))
    kind = source.randrange(4)
    if kind == 0:
        return snapshot[:place]
    if kind == 1:
        return snapshot[:place] + snapshot[place + source.randint(1, 9) :]
    if kind == 2:
        return snapshot + source.randbytes(source.randint(1, 9))
    flipped = bytearray(snapshot)
    flipped[place] ^= 1 << source.randrange(8)
    return bytes(flipped)


def test_what_has_snapshots() -> None:
    assert set(WITH_SNAPSHOTS) == {"Monitor", "History", "RelationalMonitor", "RelationalHistory"}


def test_any_damage_is_found() -> None:
    """A monitor of relations must be new for this; others are in the middle of a stream."""
    for name in WITH_SNAPSHOTS:
        case = CASES[name]
        snapshot = case.make().snapshot()
        source = random.Random(name)
        is_new = name == "RelationalMonitor"
        made: Any = RelationalMonitor(POLICIES) if is_new else case.make()
        for _ in range(300):
            with pytest.raises(SnapshotError):
                made.restore(damaged(source, snapshot))
        if is_new:
            made.restore(snapshot)
        assert case.same is not None
        assert case.same(made) == case.same(case.make()), name


def test_a_monitor_of_relations_that_is_not_new_keeps_its_state() -> None:
    same = CASES["RelationalMonitor"].same
    assert same is not None
    for slices in (None, 2):
        made = relational_monitor(slices)
        saved = made.snapshot()
        with pytest.raises(SnapshotError, match="not new"):
            made.restore(saved)
        assert same(made) == same(relational_monitor())


def test_snapshots_of_others_are_refused() -> None:
    history = RelationalHistory(POLICIES, lateness=50, wait=2, ids=True)
    others = [
        RelationalHistory("find f: p(x)", lateness=50),
        RelationalHistory(POLICIES, lateness=5),
    ]
    for other in others:
        with pytest.raises(SnapshotError):
            history.restore(other.snapshot())
    for name in WITH_SNAPSHOTS:
        made = RelationalMonitor(POLICIES) if name == "RelationalMonitor" else CASES[name].make()
        for other_name in WITH_SNAPSHOTS:
            if other_name != name:
                with pytest.raises(SnapshotError):
                    made.restore(CASES[other_name].make().snapshot())


_FORGED = """
sys.path.append(sys.argv[3])
import json

from mtlmon import History, MtlmonError, RelationalHistory, RelationalMonitor
from mtlmon.relational.monitor import engine_of
from mtlmon.support.snapshot_parts import joined_parts, sealed, split_parts, take_sized, unsealed
from tests.public_objects import CASES, FORMULA, POLICIES, relational_monitor, rows_at

kind = sys.argv[1]
source = random.Random(kind)
HISTORY = b"mtlmon history 7\\n"
SLICES = b"mtlmon slices 1\\n"

def in_json(text):
    "Other values in one or two places, as wrong as they come."
    head = json.loads(text)
    for _ in range(source.randint(1, 2)):
        places = [(head, key) for key in (range(len(head)) if isinstance(head, list) else head)]
        for within, key in places:
            value = within[key]
            if isinstance(value, (list, dict)):
                keys = range(len(value)) if isinstance(value, list) else value
                places += [(value, key) for key in keys]
        if not places:
            break
        within, key = source.choice(places)
        within[key] = source.choice(
            [source.choice(HUGE), -1, 0, 1, None, "x", [], {}, 1.5, True, [0], -(2**63)]
        )
        if isinstance(within, list) and source.random() < 0.2:
            del within[key]
    return json.dumps(head).encode()

def engine(snapshot):
    body = changed(source, snapshot[:-8])
    return body + digest(body)

def history(snapshot):
    blobs = split_parts(unsealed(HISTORY, snapshot))
    if source.random() < 0.6:
        blobs[0] = in_json(blobs[0])
    else:
        number = source.choice([k for k, blob in enumerate(blobs) if k and blob])
        blob = blobs[number]
        is_state = blob.startswith(b"mtlmon") and len(blob) > 24
        blobs[number] = forged(blob, changed(source, blob[23:])) if is_state else (
            changed(source, blob)
        )
    if source.random() < 0.1:
        del blobs[source.randrange(len(blobs))]
    return sealed(HISTORY, joined_parts(blobs))

def part(bytes_of_part):
    "Forge a part, whatever it is."
    if bytes_of_part.startswith(HISTORY):
        return history(bytes_of_part)
    if bytes_of_part[:1] in (b"{", b"["):
        return in_json(bytes_of_part)
    if bytes_of_part.startswith(SLICES):
        return SLICES + parts(bytes_of_part[len(SLICES):])
    if len(bytes_of_part) > 8 and digest(bytes_of_part[:-8]) == bytes_of_part[-8:]:
        return engine(bytes_of_part)
    try:
        split_parts(bytes_of_part)
    except SnapshotError:
        return changed(source, bytes_of_part)
    return parts(bytes_of_part)

def parts(joined):
    found = split_parts(joined)
    if not found:
        return changed(source, joined)
    number = source.randrange(len(found))
    found[number] = part(found[number])
    return joined_parts(found)

def sealed_again(change):
    def forge(snapshot):
        line = snapshot[:snapshot.index(b"\\n") + 1]
        return sealed(line, change(unsealed(line, snapshot)))
    return forge

def of_monitor(body):
    columns, saved = take_sized(body)
    return body[:len(body) - len(saved)] + part(saved)

def use_rows(made):
    clock = engine_of(made).clock
    for _ in range(8):
        clock += source.randint(0, 3)
        made.step(clock, rows_at(source))
    made.snapshot()
    made.finish()

def use_late_rows(made):
    for clock in range(28, 60, 4):
        event = clock - source.randint(0, 9), rows_at(source)
        made.push([event], ids=[source.choice([clock, None])])
    made.counters, made.snapshot(), made.latest(), made.finish("inf")

def use_history(made):
    for clock in range(28, 60, 4):
        times, keys = [clock - source.randint(0, 9)], [source.choice("ab")]
        made.push(times, [source.randint(0, 3)], keys=keys, ids=[source.choice([clock, None])])
    made.counters, made.snapshot()
    for key in made.keys:
        list(made.latest(key))
    made.finish("inf")

make, forge, use = {
    "History": (
        lambda: History(FORMULA, lateness=50, wait=2, equality=True), history, use_history
    ),
    "RelationalMonitor": (
        lambda: RelationalMonitor(POLICIES), sealed_again(of_monitor), use_rows
    ),
    "slices": (
        lambda: RelationalMonitor(POLICIES, slices=3), sealed_again(of_monitor), use_rows
    ),
    "RelationalHistory": (
        lambda: RelationalHistory(POLICIES, lateness=50, wait=2, ids=True),
        sealed_again(parts), use_late_rows,
    ),
}[kind]
old = relational_monitor(3) if kind == "slices" else CASES[kind].make()
snapshot = old.snapshot()
make().restore(snapshot)
limit(64 + 512 * (kind == "slices"))
read = refused = 0
for _ in rounds(source, int(sys.argv[2])):
    made = make()
    try:
        made.restore(forge(snapshot))
    except SnapshotError:
        refused += 1
        # as new: it can be restored from what is right
        if refused % 20 == 0:
            made.restore(snapshot)
            assert made.snapshot() == snapshot
        continue
    read += 1
    try:
        use(made)
    except MtlmonError:
        # no state that such an object can have: some are found to be so when they are used
        pass
print(read)
"""


_TEXTS, _STATE, _STAMPS, _OFFSETS, _POOLED = 2, 3, 5, 6, 9


def in_head(**changes: Any) -> Callable[[list[bytes]], None]:
    """Change members of the first part."""

    def change(parts: list[bytes]) -> None:
        parts[0] = json.dumps(json.loads(parts[0]) | changes).encode()

    return change


def in_part(number: int, old: bytes, new: bytes) -> Callable[[list[bytes]], None]:
    """Replace the last occurrence of some bytes in a part."""

    def change(parts: list[bytes]) -> None:
        before, _, behind = parts[number].rpartition(old)
        parts[number] = before + new + behind

    return change


def in_contents(parts: list[bytes]) -> None:
    """Let the next number of what is in events be a text."""
    text, rest = split_head(parts[1])
    head = json.loads(text)
    head["facts"]["contents"][0] = "x"
    parts[1] = with_head(json.dumps(head).encode(), rest)


FORGED = {
    "an offset less": in_part(_OFFSETS, bytes(1), b""),
    "fewer offsets": lambda parts: parts.__setitem__(_OFFSETS, parts[_OFFSETS][:-8]),
    "another time": lambda parts: parts.__setitem__(
        _STAMPS, parts[_STAMPS][:-8] + struct.pack("<q", 10**6)
    ),
    "a text that is none": in_part(_TEXTS, b"u", b"\xff"),
    "a state of others": lambda parts: parts.__setitem__(_STATE, parts[_STATE][:-1]),
    "a row to come": lambda parts: parts.__setitem__(_POOLED, struct.pack("<Q", 10**6)),
    "an answer of no policy": in_head(withdrawn=[[99, 0, 0, 0, []]]),
    "an answer of no kind": in_head(withdrawn=[[0, 0, 0, 3, [0]]]),
    "an answer at no time": in_head(found=[[0, None, 0, 0, [0]]]),
    "an answer without values": in_head(found=[[0, 0, 0, 0, []]]),
    "an answer with no text": in_head(found=[[0, 0, 0, 0, [10**9]]]),
    "no names": in_head(missing=[[0, ["x"]]]),
    "names that are not in order": in_head(missing=[[0, [2, 1]]]),
    "no time": in_head(final="x"),
    "fewer counts": in_head(counts=[[], [], []]),
    "no contents": in_contents,
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_parts_of_a_history_of_relations(name: str) -> None:
    """What use relies on is checked by `restore`, which changes nothing then."""
    case = CASES["RelationalHistory"]
    snapshot = case.make().snapshot()
    line = snapshot[: snapshot.index(b"\n") + 1]
    parts = split_parts(unsealed(line, snapshot))
    before = list(parts)
    FORGED[name](parts)
    assert parts != before
    made: Any = case.make()
    with pytest.raises(SnapshotError):
        made.restore(sealed(line, joined_parts(parts)))
    assert made.snapshot() == snapshot


@pytest.mark.parametrize(
    "changes",
    [
        {"awaited": [["later", [0]]]},
        {"awaited": [["later", 10**6]]},
        {"awaited_rows": [[0, 30, "00" * 8, None]]},
        {"awaited_rows": [[0, 30, "00" * 8, 10**6]]},
        {"awaited_rows": [[9, 30, "00" * 8, 29]]},
        {"awaited_rows": [[0, "x", "00" * 8, 29]]},
        {"awaited_rows": [[0, 30, "00", 29]]},
    ],
    ids=str,
)
def test_forged_retractions_that_wait(changes: dict[str, Any]) -> None:
    """They came at a time that was there, and are of a trace and a letter of the history."""
    case = CASES["History"]
    snapshot = case.make().snapshot()
    text, rest = split_head(snapshot)
    head = json.loads(text)
    known = head["known"]
    assert all(len(known[name]) == 1 for name in changes)
    made: Any = case.make()
    made.restore(with_head(json.dumps(head).encode(), rest))
    with pytest.raises(SnapshotError):
        head["known"] = known | changes
        made.restore(with_head(json.dumps(head).encode(), rest))
    assert made.snapshot() == snapshot


def split_head(snapshot: bytes) -> tuple[bytes, list[bytes]]:
    """What a snapshot of a history says in JSON, and the parts behind it."""
    text, *rest = split_parts(unsealed(b"mtlmon history 7\n", snapshot))
    return text, rest


def with_head(text: bytes, rest: list[bytes]) -> bytes:
    """A snapshot of a history, with the digest that fits."""
    return sealed(b"mtlmon history 7\n", joined_parts([text, *rest]))


def test_forged_snapshots() -> None:
    """With digests that fit; no crash, no table as large as a number says, no endless loop.

    What is restored can be used, or says what is wrong as errors of mtlmon.
    """
    root = str(Path(__file__).parents[1])
    # no parameters, of which the sanitized build would take the first only
    for kind in ("History", "RelationalMonitor", "slices", "RelationalHistory"):
        assert int(run_child(_FORGED, kind, "300", root)) > 0, kind
