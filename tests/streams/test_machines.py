"""Machines of a program, against a loop over the rows of each key in the order of time.

Nothing in the runs is about machines: they are a kernel of streams, and get keys, late rows and
checkpoints as all streams do.
"""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import mtlmon
from mtlmon import streams
from mtlmon.errors import MtlmonError, PolicyError, SnapshotError
from mtlmon.testing import ViolationError, assert_holds
from tests.cli.process import mtlmon as command
from tests.doors import MachineStates, StreamProgram
from tests.doors import predicates_own_machines as own_machines
from tests.streams import seen
from tests.streams.programs import predicate

NAMES = ("ts", "user", "x")
Row = tuple[int, str, int | None]

TEXT = """
key user
column x: int
stream n: int = machine("seen:Count", x)
stream s: int = machine("seen:Seen", ts, x)
stream calm: bool = machine("seen:Calm", x)
stream w = count[0,*](x > -99)
stream deep: int = machine("seen:Count", s - 1)
stream each: int = machine("seen:Count", x) per x as value
policy same: n = w
policy odd: s % 7 != 3
policy calm: calm
policy some: calm IMPLIES EVENTUALLY[0,5] n % 2 = 0
policy deep: deep % 5 != 0
"""
# what has a state of the whole program, and no state by trace
WHOLE = (
    TEXT + "policy each: coalesce(each[x], 0) < 4\npolicy tick on every 10s: n.hold() = w.hold()\n"
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The machines of the texts, as `--machines seen` registers them."""
    known = dict(own_machines._registered)
    for machine in (seen.Count, seen.Seen, seen.Calm):
        own_machines._registered[f"seen:{machine.__name__}"] = machine
    yield
    own_machines._registered.clear()
    own_machines._registered.update(known)


def log(seed: int, count: int = 90, keys: str = "abc") -> list[Row]:
    """Rows in the order of time, several at some times."""
    chance = random.Random(seed)
    time = 0
    found: list[Row] = []
    for _ in range(count):
        time += chance.choice([0, 0, 1, 2, 5])
        found.append((time, chance.choice(keys), chance.choice([None, 1, 4, 7, 7, 8, 9])))
    return found


def late(rows: list[Row], seed: int, most: int = 12) -> list[Row]:
    """The rows as they come: each up to so much later."""
    chance = random.Random(seed)
    return sorted(rows, key=lambda row: row[0] + chance.choice([0, 0, 0, chance.randint(0, most)]))


def loop(rows: list[Row], machine: Callable[[], Any]) -> dict[tuple[str, int, int], Any]:
    """What a machine says, by key, time and offset: the rows of each key, in the order of time."""
    objects: dict[str, Any] = defaultdict(machine)
    offsets: dict[tuple[str, int], int] = defaultdict(int)
    found = {}
    for time, user, x in sorted(rows, key=lambda row: row[0]):
        offset = offsets[user, time]
        offsets[user, time] += 1
        found[user, time, offset] = objects[user].step({"ts": time, "user": user, "x": x})
    return found


def expected(rows: list[Row]) -> dict[tuple[str, str, int, int], bool]:
    """The verdicts of the policies that are about the machines alone."""
    odd = loop(rows, seen.Seen)
    counts = loop(rows, seen.Count)
    calm = loop(rows, seen.Calm)
    found = {("same", *name): True for name in counts}
    found |= {("odd", *name): value is not None and value % 7 != 3 for name, value in odd.items()}
    return found | {("calm", *name): value for name, value in calm.items()}


def checked(policies: str) -> set[str]:
    return {"same", "odd", "calm"} if "policy odd" in policies else {"calm"}


class Latest:
    """The verdicts as they are now, of answers that correct earlier ones."""

    def __init__(self) -> None:
        self.verdicts: dict[tuple[str, str, int, int], bool | None] = {}

    def take(self, answers: Any) -> None:
        for one in answers:
            name = (one["policy"], one["user"], one["time"], one["offset"])
            if one.get("op") == "delete":
                del self.verdicts[name]
            elif one["verdict"] is not None:
                self.verdicts[name] = one["verdict"]

    def of(self, policies: set[str]) -> dict[tuple[str, str, int, int], bool | None]:
        return {name: value for name, value in self.verdicts.items() if name[0] in policies}


def table(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(NAMES, map(list, columns), strict=True)))


def write(path: Path, rows: list[Row]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *rows])
    return path


def written(path: Path) -> Latest:
    """The verdicts of a file of answers."""
    latest = Latest()
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            name = {"time": int(row["time"]), "offset": int(row["offset"])}
            value = {"true": True, "false": False, "": None}[row["verdict"]]
            latest.take([{**row, **name, "verdict": value}])
    return latest


def found(policies: Any, rows: Any, **options: Any) -> Latest:
    latest = Latest()
    run = mtlmon.check(policies, rows, unit="s", end_time="inf", **options)
    latest.take(row for batch in run.batches() for row in batch.to_pylist())
    return latest


@pytest.mark.parametrize("text", [TEXT, WHOLE])
@pytest.mark.parametrize("seed", range(4))
def test_rows_in_order_and_late_rows_say_what_a_loop_says(seed: int, text: str) -> None:
    rows = log(seed, 240)
    in_order = found(text, table(rows))
    assert in_order.of(checked(text)) == expected(rows)
    assert len(set(expected(rows).values())) == 2
    come = late(rows, seed)
    assert come != rows
    corrected = found(text, table(come), lateness="30s")
    assert corrected.of(checked(text)) == expected(come)
    sorted_rows = sorted(come, key=lambda row: row[0])
    assert corrected.verdicts == found(text, table(sorted_rows)).verdicts


@pytest.mark.parametrize("text", [TEXT, WHOLE])
@pytest.mark.parametrize("lateness", [None, "30s"])
@pytest.mark.parametrize("seed", range(4))
def test_any_batches_and_snapshots_between_them(seed: int, lateness: str | None, text: str) -> None:
    rows = log(seed + 10, 180)
    come = rows if lateness is None else late(rows, seed)
    chance = random.Random(seed)
    options: dict[str, Any] = {"unit": "s", "lateness": lateness}
    live = mtlmon.live(text, **options)
    latest = Latest()
    snapshots = 0
    while come:
        count = chance.choice([1, 1, 2, 7])
        part, come = come[:count], come[count:]
        latest.take(live.feed([dict(zip(NAMES, row, strict=True)) for row in part]))
        # without some, rows go on from states that chunks have saved
        if seed % 2 and chance.random() < 0.4:
            snapshot = live.snapshot()
            live.close()
            live = mtlmon.live(text, snapshot=snapshot, **options)
            snapshots += 1
    latest.take(live.end())
    assert (snapshots > 3) == seed % 2
    given = rows if lateness is None else late(rows, seed)
    assert latest.of(checked(text)) == expected(given)


def test_a_command_that_is_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports the module from the present directory, and keeps the states in its checkpoint."""
    rows = log(3, 200)
    monkeypatch.chdir(tmp_path)
    Path("seen.py").write_text(Path(str(seen.__file__)).read_text())
    Path("rules.mtl").write_text(TEXT)
    asked = ["--machines", "seen", "--unit", "s", "--end-time", "inf", "rules.mtl", "log.csv"]
    for more, given in ([], rows), (["--lateness", "30s"], late(rows, 5)):
        write(Path("log.csv"), given)
        whole = command(*more, *asked, "-o", "whole.csv", "--output-format", "csv")
        assert whole.status == 1, whole.errors
        parts = [*more, *asked, "-o", "out.csv", "--output-format", "csv", "--checkpoint", "state"]
        for end in (70, 71, 150, 200):
            write(Path("log.csv"), given[:end])
            ended = command(*parts, *([] if end == 70 else ["--resume"]))
            assert ended.status in (0, 1), ended.errors
        if not more:
            assert Path("out.csv").read_text() == Path("whole.csv").read_text()
        wanted = written(Path("whole.csv"))
        # revisions are those of batches
        assert written(Path("out.csv")).verdicts == wanted.verdicts
        assert wanted.of(checked(TEXT)) == expected(given)
        Path("out.csv").unlink()
        Path("state").unlink()


def test_a_dictionary_of_machines_is_a_policy_for_each(tmp_path: Path) -> None:
    rows = log(8)
    wanted = {("calm", *name): value for name, value in loop(rows, seen.Calm).items()}
    machines = {"calm": seen.Calm}
    path = write(tmp_path / "log.csv", rows)
    for given in table(rows), path:
        assert found(machines, given, key="user").verdicts == wanted
    events = [(time, {"user": user, "x": x}) for time, user, x in rows]
    with pytest.raises(ViolationError, match="calm"):
        assert_holds(machines, events, key="user")
    good = [(time, {"user": user, "x": 3}) for time, user, _ in rows]
    assert_holds(machines, good, key="user")


class Failing(seen.Count):
    """Fails where it is told to."""

    columns: ClassVar = {**seen.Count.columns, "what": str}

    def step(self, row: dict[str, Any]) -> Any:
        if row["what"] == "step":
            raise KeyError("nothing")
        super().step(row)
        given = {"text": "many", "float": 0.5, "large": 1 << 63, "set": {1}}
        return given.get(row["what"], row["what"] != "false")

    def save(self) -> Any:
        return {self.count} if self.count == 3 else self.count


def test_errors_name_the_row_and_what_was_expected(tmp_path: Path) -> None:
    def outcome(*words: str, **options: Any) -> MtlmonError:
        path = tmp_path / "log.csv"
        path.write_text("ts,x,what\n" + "".join(f"{k},1,{one}\n" for k, one in enumerate(words)))
        with pytest.raises(MtlmonError) as caught:
            mtlmon.check({"fails": Failing}, path, **options).finish()
        return caught.value

    error = outcome("true", "step")
    assert "/log.csv:3: step of machine Failing has failed with KeyError" in str(error)
    assert isinstance(error.__cause__, KeyError)
    error = outcome("true", "step", lateness=5)
    assert "at time-stamp 1: step of machine Failing has failed" in str(error)
    assert isinstance(error.__cause__, KeyError)
    for word in ("text", "float", "large", "set"):
        assert "gives" in str(error := outcome("true", word))
        assert "/log.csv:3: " in str(error)
        assert "which is not true or false" in str(error)
    live = mtlmon.live({"fails": Failing}, time="ts")
    live.feed([{"ts": k, "x": 1, "what": "true"} for k in range(3)])
    with pytest.raises(MtlmonError, match=r"has \{3\} of type set, but states are plain values"):
        live.snapshot()


class Shown:
    """Shows what it gets."""

    columns: ClassVar[dict[str, type]] = {"i": int, "f": float, "b": bool, "s": str}

    def step(self, row: dict[str, Any]) -> str:
        return repr(list(row.values()))

    def save(self) -> None:
        return None

    def load(self, state: None) -> None:
        pass


SHOWN = 'stream shown: text = machine("seen:Shown", i, f, b, s)'


def test_values_have_the_types_that_a_class_declares(tmp_path: Path) -> None:
    """Rationale: a class that says int must not get a text, nor 1 where it says float."""
    own_machines._registered["seen:Shown"] = Shown
    path = tmp_path / "log.csv"
    path.write_text("ts,i,f,b,s\n1,1,1,true,1\n2,,2.5,,\n")

    def shown(given: Any, *wanted: str) -> list[bool | None]:
        policies = [f'{SHOWN}\npolicy p: shown = "{one}"' for one in wanted]
        runs = [list(mtlmon.check(one, given)) for one in policies]
        return [run[place].verdict for place, run in enumerate(runs)]

    assert shown(path, "[1, 1.0, True, '1']", "[None, 2.5, None, None]") == [True, True]
    rows = pa.table({"ts": [1, 2], "i": [1, None], "f": [1, 2], "b": [True, None], "s": ["1", ""]})
    assert shown(rows, "[1, 1.0, True, '1']", "[None, 2.0, None, '']") == [True, True]


@pytest.mark.parametrize(
    ("column", "type", "message"),
    [
        ("i", pa.string(), "column i of type string, but machine Shown takes an integer"),
        ("i", pa.float64(), "column i of type double, but machine Shown takes an integer"),
        ("f", pa.bool_(), "column f of type bool, but machine Shown takes a number"),
        ("b", pa.int64(), "column b of type int64, but machine Shown takes true or false"),
        ("s", pa.int64(), "column s of type int64, but machine Shown takes a text"),
    ],
)
def test_values_of_another_type_are_refused(column: str, type: pa.DataType, message: str) -> None:
    own_machines._registered["seen:Shown"] = Shown
    types = {"i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "s": pa.string()}
    types[column] = type
    with pytest.raises(PolicyError, match=message):
        streams.compile(SHOWN, pa.schema([("ts", pa.int64()), *types.items()]))


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_taken_back_have_never_been(seed: int) -> None:
    chance = random.Random(seed)
    rows = log(seed)
    come = [(*row, "+", str(k)) for k, row in enumerate(rows)]
    removed = set(chance.sample(range(len(rows)), 20))
    for k in removed:
        place = next(p for p, one in enumerate(come) if one[4] == str(k) and one[3] == "+")
        come.insert(chance.randint(place + 1, min(len(come), place + 9)), (*rows[k], "-", str(k)))
    names = (*NAMES, "op", "id")
    given = pa.table(dict(zip(names, map(list, zip(*come, strict=True)), strict=True)))
    latest = Latest()
    run = mtlmon.check(TEXT, given, lateness=60, op="op", id="id")
    latest.take(run.to_arrow().to_pylist())
    wanted = expected([row for k, row in enumerate(rows) if k not in removed])
    found = latest.of(checked(TEXT))

    def by_time(verdicts: Any) -> Any:
        order = sorted((policy, user, time, offset) for policy, user, time, offset in verdicts)
        return [(one[:3], verdicts[one]) for one in order]

    # a name is never used again, so offsets have gaps
    assert by_time(found) == by_time(wanted)


def test_a_row_that_a_machine_refuses_can_be_left_out() -> None:
    rows = pa.table({"ts": [0, 1, 2, 3, 4], "x": [1] * 5, "what": ["", "", "step", "", "false"]})
    run = mtlmon.check({"fails": Failing}, rows, on_error="skip")
    assert [(one.time, one.verdict) for one in run] == [
        (0, True),
        (1, True),
        (3, True),
        (4, False),
    ]
    assert any("step of machine Failing" in one for one in run.messages)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stream s = machine(x)", "expected the class of the machine"),
        ('stream s = machine("seen", x)', "expected the class of the machine"),
        ('stream s = machine("seen:Count")', "expected ',' and what the rows have"),
        ('stream s = machine("seen:Count", x, x)', "machine Count takes one argument, x, not 2"),
        ('stream s: time = machine("seen:Count", x)', "a machine gives no times"),
        ('stream s: int = machine("seen:Count", s.last(or: 0))', "seen:Count is of Python"),
        ('stream s = machine("seen:Count", x) > 3', "compares"),
    ],
)
def test_calls_that_are_no_calls(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message.replace("(", r"\(").replace("+", r"\+")):
        streams.compile(text, pa.schema([("ts", pa.int64()), ("x", pa.int64())]))


def test_files_name_registered_machines_only() -> None:
    """No file can let code be imported, even if the module is there."""
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    text = 'stream s: int = machine("tests.streams.seen:Count", x)'
    with pytest.raises(PolicyError, match=r"there is no machine tests.streams.seen:Count"):
        streams.compile(text, schema)
    streams.register_machine(seen.Count)
    streams.compile(text, schema)
    with pytest.raises(PolicyError, match="a machine is a class with the methods"):
        streams.register_machine(Latest)  # type: ignore[type-var]
    with pytest.raises(PolicyError, match="does not say what a row has"):
        mtlmon.check({"seen": seen.Seen}, table(log(0)))


def test_the_command_imports_what_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("log.csv"), log(1))
    Path("rules.mtl").write_text(TEXT)
    Path("seen.py").write_text("open('imported', 'w')\nraise RuntimeError('no')\n")
    ended = command("rules.mtl", "log.csv")
    assert ended.status == 2
    assert "there is no machine seen:Seen: the command takes --machines seen" in ended.errors
    assert not Path("imported").exists()
    ended = command("--machines", "seen", "rules.mtl", "log.csv")
    assert (ended.status, "cannot import seen: RuntimeError: no" in ended.errors) == (2, True)
    assert Path("imported").exists()
    for module, message in (
        ("absent", "cannot import absent: ModuleNotFoundError"),
        ("json", "module json has no class with the methods step, save and load"),
    ):
        ended = command("--machines", module, "rules.mtl", "log.csv")
        assert (ended.status, message in ended.errors) == (2, True)


def program() -> StreamProgram:
    text = 'machine("seen:Calm", x)'
    return StreamProgram({"calm": predicate(text)}, {}, pa.schema([("x", pa.int64())]))


def evaluated(of: StreamProgram, rows: list[tuple[int, int, int]]) -> list[bool]:
    times, numbers, values = zip(*rows, strict=True)
    batch = pa.record_batch({"x": pa.array(values, pa.int64())})
    answers = of.evaluate(batch, np.array(times, np.int64), np.array(numbers, np.uint32))
    found: list[bool] = answers["calm"].to_pylist()
    return found


def test_traces_whose_objects_are_as_new_are_settled() -> None:
    own = program()
    evaluated(own, [(0, 0, 9), (0, 1, 9), (0, 2, 3)])
    assert own.settled(4).tolist() == [False, False, True, True]
    own.keep(np.array([2**32 - 1, 0, 2**32 - 1, 2**32 - 1], np.uint32).tobytes())
    assert own.settled(1).tolist() == [False]
    assert evaluated(own, [(1, 0, 9), (1, 0, 9), (1, 0, 9)]) == [True, True, False]
    assert own.held_bytes > 0
    own.forget_all()
    assert evaluated(own, [(0, 0, 9)] * 4) == [True, True, True, False]


def test_a_batch_is_undone() -> None:
    own = program()
    evaluated(own, [(0, 0, 9), (0, 0, 9)])
    before = own.snapshot()
    for _ in range(3):
        assert evaluated(own, [(1, 0, 9), (1, 0, 9), (1, 1, 9)]) == [True, False, True]
        own.undo()
        assert own.snapshot() == before


def test_damaged_states_are_no_states() -> None:
    states = MachineStates("machine Calm", seen.Calm)
    states.ready(7)({"x": 9})
    snapshot = states.snapshot()
    assert snapshot == b'[[7,{"list":[9]}]]'
    for damaged in (
        b"",
        b"{}1",
        b"[[7]]",
        b'[["a",1]]',
        b"[[-1,1]]",
        b"[[1,[2]]]",
        b'[[1,{"a":1,"b":2}]]',
    ):
        with pytest.raises(SnapshotError):
            states.restore(damaged)
    states.restore(snapshot)
    assert states.snapshot() == snapshot
