"""Snapshots with digests that fit and numbers that do not: refused in little memory and time.

Each run is a child process that may take a few megabytes more than it has at its start, so that a
table made for a number in the snapshot, and not for what the snapshot holds, is a MemoryError.
"""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from mtlmon import Program
from tests.engines import with_expressions, with_network
from tests.sampling import STRIDE
from tests.traces import Mode

_PRELUDE = """
import pickle
import random
import resource
import sys
from hashlib import blake2b

from mtlmon import Monitor, MonitorBrokenError, MtlmonError, SnapshotError
from mtlmon.engine.native import SavedState

def limit(megabytes):
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    size = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))

def rounds(source, count):
    "All, or where tests take a part of their cases as many, drawn anew for each turn."
    if EVERY > 1:
        source.seed(f"{source.random()} {FIRST}")
    for number in range(count):
        if number * EVERY >= count and number >= 100 and read:
            return
        yield number

def number(value):
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)

def digest(data):
    return blake2b(data, digest_size=8).digest()

def forged(snapshot, body):
    return snapshot[:15] + digest(body) + body

HUGE = [2**k - d for k in (16, 20, 24, 28, 30, 31, 32, 40, 62, 63, 64) for d in (0, 1, 2)]
HUGE = [value for value in HUGE if value < 2**64]

def changed(source, body):
    "Mutations: bytes, insertions, cuts, ends, and numbers as large as they come in any place."
    body = bytearray(body)
    for _ in range(source.randint(1, 3)):
        place = source.randrange(len(body) + 1)
        kind = source.randrange(5)
        if kind == 0 and body:
            body[place % len(body)] = source.randrange(256)
        elif kind == 1:
            body[place:place + source.randint(0, 1)] = number(source.choice(HUGE))
        elif kind == 2:
            body[place:place] = number(source.randrange(4))
        elif kind == 3:
            del body[place:]
        else:
            del body[place:place + source.randint(1, 3)]
    return bytes(body)
"""

_MONITORS = """
program, mode = pickle.loads(bytes.fromhex(sys.argv[1])), sys.argv[2]
source = random.Random(str(program.rows))
bodies = []

def letter():
    return [name for name in "pqr" if source.random() < 0.4]

def go_on(monitor):
    "Do with it what can be done with a monitor."
    try:
        before = monitor.snapshot()
        state = SavedState(monitor)
        assert state.is_state_of(monitor)
        clock = max([point.time_stamp for point in monitor.pending], default=0)
        monitor.next_change, monitor.settled_from
        try:
            monitor.step(clock, letter())
        except MtlmonError as error:
            # It has a later time-stamp, as its own message says.
            if "below " not in str(error):
                raise
            clock = int(str(error).partition("below ")[2].split()[0].strip(",;:.()"))
        for _ in range(source.randrange(12)):
            clock += source.choice([0, 0, 1, 2, 5, 30])
            monitor.step(clock, letter())
        monitor.advance(clock + source.choice([0, 1, 9]))
        after = monitor.snapshot()
        again = Monitor(program, mode)
        again.restore(after)
        monitor.finish("inf")
        state.load(monitor)
        assert monitor.snapshot() == before
    except MonitorBrokenError:
        raise
    except (MtlmonError, OverflowError):
        monitor.reset()

for gaps in [1], [0, 0, 1], [0, 1, 2, 9]:
    clock = 0
    monitor = Monitor(program, mode)
    snapshot = monitor.snapshot()
    for _ in range(30):
        clock += source.choice(gaps)
        monitor.step(clock, letter())
        bodies.append(monitor.snapshot()[23:])
monitor.restore(forged(snapshot, bodies[-1]))
limit(48)
read = 0
for _ in rounds(source, 3000):
    try:
        monitor.restore(forged(snapshot, changed(source, source.choice(bodies))))
    except SnapshotError:
        continue
    read += 1
    go_on(monitor)
print(read)
"""

_RESOLVER = """
from mtlmon.verdicts.native import Resolver

source = random.Random(5)
resolver = Resolver()
bodies = []
for time_stamp in range(30):
    resolver.resolve([(time_stamp, 1, (max(time_stamp - 2, 0), 0)), (time_stamp, 2, (0, 0))])
    bodies.append(resolver.snapshot())
Resolver().restore(bodies[-1])
limit(48)
read = 0
for _ in rounds(source, 5000):
    try:
        Resolver().restore(changed(source, source.choice(bodies)))
    except SnapshotError:
        continue
    read += 1
print(read)
"""

_KEYS = """
import numpy as np

from mtlmon.arrays.native import EventColumns
from mtlmon.checking.log_check import LogCheck
from mtlmon.drive.native import policies_snapshot, restore_policies
from mtlmon.policy import Policy
from mtlmon.syntax.parser import parse

class Log:
    "Events of four keys, which are a batch and the source of that batch."

    key_tables = [()]
    can_forget_keys = False

    def settled_traces(self, partition: int, count: int) -> bytes | None:
        return None

    def keep_traces(self, partition: int, numbers: bytes) -> None:
        keys = self.key_tables[partition]
        assert keys is not None
        keys.keep(numbers)

    def prepare_next(self) -> None:
        pass

    def __init__(self, start, count):
        stamps = start + np.cumsum([source.choice([0, 0, 1, 1, 2, 7]) for _ in range(count)])
        self.time_stamps = stamps.astype(np.int64)
        self.clock = int(stamps[-1])
        self.numbers = np.array([source.randrange(4) for _ in range(count)], np.uint32)

    def numbers_of(self, partition):
        return self.numbers

    def events_of(self, atoms, partition=0):
        count = len(self.numbers)
        events = EventColumns(self.time_stamps, count)
        for place in range(len(atoms)):
            events.add_bytes(place, np.array([source.random() < 0.4 for _ in range(count)], bool))
        return events

kind = sys.argv[1]
source = random.Random(kind)
formulas = (
    "p IMPLIES EVENTUALLY[0,5] q",
    "ONCE[1,9] EVENTUALLY[1,4] (p SINCE[0,2] PREVIOUS q)",
    "ALWAYS[0,700] (p IMPLIES EVENTUALLY[0,400] q)",
)
asked = [Policy(text, parse(text), parse(text)) for text in formulas]
options = {"first": {"verdicts": "first"}, "resolve": {"resolve": True}, "all": {}}
options["advance"] = {"advance_every": 4}

def make():
    return LogCheck(asked, **options[kind])

def checked(check, log):
    for _ in check.feed(log, log):
        check.verdicts.taken()

bodies = []
for count in range(1, 400, 20):
    check = make()
    checked(check, Log(0, count))
    bodies.append(policies_snapshot(check._native))
    check.close()
restore_policies(make()._native, bodies[-1])
limit(64)
read = 0
for _ in rounds(source, 1500):
    check = make()
    try:
        restore_policies(check._native, changed(source, source.choice(bodies)))
    except SnapshotError:
        check.close()
        continue
    read += 1
    policies_snapshot(check._native)
    log = Log(10**6, 50)
    try:
        checked(check, log)
        if not check.is_stopped:
            for _ in check.end(log, "last"):
                pass
    except MtlmonError:
        pass
    check.close()
print(read)
"""

_KEY_TABLE = """
from mtlmon.arrays.native import KeyTable

source = random.Random(sys.argv[1])
columns = int(sys.argv[1])
body = number(columns) + number(30)
for k in range(30 * columns):
    text = source.randbytes(source.randrange(9)) + bytes([k])
    body += number(len(text)) + text
KeyTable(columns).restore(body)
limit(48)
read = 0
for _ in rounds(source, 5000):
    keys = KeyTable(columns)
    try:
        keys.restore(changed(source, body))
    except SnapshotError:
        continue
    read += 1
    [keys.key(number) for number in range(len(keys))]
print(read)
"""


def pickled(program: Program) -> str:
    return pickle.dumps(program).hex()


def run_child(program: str, *arguments: str) -> str:
    turn = f"EVERY, FIRST = {STRIDE.every}, {STRIDE.first}\n"
    done = subprocess.run(
        [sys.executable, "-c", turn + _PRELUDE + program, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    "formula",
    [
        "p UNTIL[2,5] q",
        "ONCE[0,9] EVENTUALLY[2,7] q",
        "ONCE[1,*) EVENTUALLY[1,4] (p SINCE[0,2] PREVIOUS q)",
        "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))",
    ],
)
def test_any_numbers(formula: str) -> None:
    assert int(run_child(_MONITORS, pickled(with_expressions(formula)), "local")) > 0


@pytest.mark.parametrize("mode", ["local", "naive"])
@pytest.mark.parametrize(
    "formula",
    [
        "p UNTIL[2,5] q",
        "ONCE[0,9] EVENTUALLY[2,7] q",
        "ONCE[1,*) EVENTUALLY[1,4] (p SINCE[0,2] PREVIOUS q)",
        "ALWAYS[0,9] (p IMPLIES (EVENTUALLY[2,5] q) AND NEXT[0,2] r)",
        "(PREVIOUS[0,2] EVENTUALLY[0,5] p) SINCE[1,9] (q UNTIL[2,6] NEXT ONCE[1,3] p)",
        # All its time-points are undecided.
        "ALWAYS[0,99] (p IMPLIES EVENTUALLY[20,60] ONCE[0,3] (p AND q))",
        # Its functions have several words.
        " OR ".join(f"(p AND EVENTUALLY[{k},{2 * k}] (q AND NEXT[0,{k}] r))" for k in range(1, 5)),
    ],
)
def test_any_numbers_in_the_states_of_a_network(formula: str, mode: Mode) -> None:
    assert int(run_child(_MONITORS, pickled(with_network(formula)), mode)) > 0


def test_any_numbers_in_open_equivalences() -> None:
    assert int(run_child(_RESOLVER)) > 0


@pytest.mark.parametrize("kind", ["all", "first", "resolve", "advance"])
def test_any_numbers_in_the_states_of_many_keys(kind: str) -> None:
    assert int(run_child(_KEYS, kind)) > 0


@pytest.mark.parametrize("columns", ["1", "2"])
def test_any_numbers_in_the_texts_of_keys(columns: str) -> None:
    assert int(run_child(_KEY_TABLE, columns)) > 0


def test_nodes_of_a_bdd_out_of_order() -> None:
    """Nodes in any order over 2n variables may make a function of 2^n nodes, slowly."""
    program = """
formula = "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))"
monitor = Monitor(formula, "global")
snapshot = monitor.snapshot()
pairs = 40

def words(*values):
    return b"".join(number(value + 1) for value in values)

# Two families of obligations, of which the first has open windows.
windows = [2 * pairs, 0, *range(1, 2 * pairs + 1), 0, 0]
# The variables of NEXT and of the first operator, and then those of both families in turn.
variables = [2 * pairs, *(2 + 2 * place for place in range(2 * pairs))]

def outcome(rows, root):
    nodes = [1, 2 * len(rows) + 1, *(value for row in rows for value in row), root]
    try:
        monitor.restore(
            forged(snapshot, bytes(7) + words(*windows, *variables, *nodes, 0))
        )
    except SnapshotError:
        return "refused"
    return "read"

# f(i) = IF v(i) THEN (v(i + pairs) OR f(i - 1)) ELSE f(i - 1), where f(i - 1) has v(i - 1).
rows, below = [], 0
for i in range(pairs):
    rows.append((pairs + i, below, 1))
    rows.append((i, below, 2 * len(rows)))
    below = 2 * len(rows)
print(outcome([(1, 0, 1), (0, 2, 3)], 4))
limit(48)
print(outcome(rows, below))
"""
    assert run_child(program) == "read\nrefused\n"


@pytest.mark.parametrize(
    ("time_stamp", "passed", "is_read"),
    [(0, 2**63, True), (0, 2**63 + 1, False), (5, 2**63 - 5, True), (5, 2**63 - 4, False)],
)
def test_a_present_after_the_end_of_time(time_stamp: int, passed: int, is_read: bool) -> None:
    """A log that is complete ends at one more than the largest time-stamp, nothing later."""
    program = """
monitor = Monitor("EVENTUALLY[0,5] p")
monitor.step(0, ["p"])
snapshot = monitor.snapshot()
# The numbers of the counters and the clock, each of one byte, come first.
body = number(1) + number(int(sys.argv[1])) + number(0) + number(int(sys.argv[2])) + snapshot[27:]
try:
    monitor.restore(forged(snapshot, body))
except SnapshotError:
    print("refused")
else:
    print("read" if monitor.snapshot()[23:] == body else "altered")
"""
    found = run_child(program, str(time_stamp), str(passed))
    assert found == ("read\n" if is_read else "refused\n")


def test_an_obligation_that_an_expression_mentions_twice() -> None:
    """Neither as the same literal nor as one and its opposite, which no engine would make."""
    program = """
monitor = Monitor("(EVENTUALLY[0,5] p) AND (EVENTUALLY[0,5] q)", "global")
monitor.step(0, [])
snapshot = monitor.snapshot()
body = snapshot[23:]
# A conjunction of two literals, each one more than twice its variable, or than that and a sign.
cube = bytes([1 + 2 * 2, 1, 3])
place = body.index(cube) + 1
for sign in (0, 1):
    for obligation in (0, 1):
        literal = bytes([1 + 2 * obligation + sign])
        try:
            monitor.restore(forged(snapshot, body[:place + 1] + literal + body[place + 2:]))
        except SnapshotError:
            print("refused", end=" ")
        else:
            print("read", end=" ")
"""
    assert run_child(program).split() == ["refused", "read", "refused", "read"]
