"""--max-memory: what it stops, what is said, and that nothing earned is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.process import Ended, mtlmon

NAIVE = ("--mode", "naive", "-e", "p OR EVENTUALLY[0,1000000] q")
LIMIT = "the memory limit of 1 MiB is exceeded"


def log_of(count: int) -> str:
    """Every second event decides itself, the others stay undecided."""
    return "".join(f"@{k}{' p' if k % 2 else ''}\n" for k in range(count))


def check(ended: Ended, what: str) -> None:
    """The error is one line that names the limit and what holds most."""
    assert ended.status == 2
    (line,) = [line for line in ended.errors.splitlines() if "limit" in line]
    assert line.startswith(f"mtlmon: {LIMIT}: ")
    assert what in line
    assert "allow more memory with --max-memory, or " in line


@pytest.mark.parametrize("text", ["", "0", "-1", "5X", "50%"])
def test_what_is_no_size(text: str) -> None:
    for arguments in (("-e", "p"), ("resolve",)):
        ended = mtlmon(*reversed(arguments[:1]), *arguments[1:], f"--max-memory={text}")
        assert ended.status == 2
        assert f"argument --max-memory: '{text}' is not a size of memory" in ended.errors


def test_within_the_limit() -> None:
    log = log_of(2000)
    assert mtlmon(*NAIVE, "--max-memory", "2M", log=log) == mtlmon(*NAIVE, log=log)


def test_every_verdict_earned_is_written() -> None:
    """Up to the event at which the limit is exceeded, as without a limit."""
    log = log_of(60_000)
    limited = mtlmon(*NAIVE, "--max-memory", "1M", log=log)
    check(limited, "by undecided time-points")
    whole = mtlmon(*NAIVE, log=log).output
    assert len(limited.output) > 20_000
    assert whole.startswith(limited.output)
    assert len(limited.output) < len(whole)


def test_open_equivalents() -> None:
    log = "".join(f"@{k // 3}\n" for k in range(60_000))
    options = ("--resolve", "-e", "EVENTUALLY[0,1000000] q", "--max-memory", "1M")
    check(mtlmon(*options, log=log), "by time-points whose equivalence is not resolved yet")


def test_resolving() -> None:
    verdicts = "9:0 true\n" + "".join(f"{k}:0 = 10:0\n" for k in range(11, 60_000))
    limited = mtlmon("resolve", "--max-memory", "1M", log=verdicts)
    check(limited, "by time-points whose equivalence is not resolved yet")
    assert limited.output == "9:0 true\n"


def test_resolving_in_order() -> None:
    verdicts = "".join(f"{k}:0 true\n" for k in range(60_000))
    limited = mtlmon("resolve", "--in-order", "--max-memory", "1M", log=verdicts)
    check(limited, "by verdicts that wait for their turn")


def test_a_long_line() -> None:
    """The beginning of a line is kept until its end is there."""
    log = b"@1 p\n@2 " + b"x" * (3 << 20) + b"\n"
    limited = mtlmon("-e", "p", "--max-memory", "1M", log=log)
    check(limited, "by the buffers of text")
    assert limited.output == "1:0 true\n"


def test_the_last_checkpoint_is_intact(tmp_path: Path) -> None:
    """With more memory, the run goes on, and writes what one undisturbed run does."""
    log = tmp_path / "log"
    log.write_text(log_of(60_000))
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    options = (
        *NAIVE, "-o", str(output), "--checkpoint", str(checkpoint), "--checkpoint-every", "1000",
        "--resume", str(log),
    )  # fmt: skip
    check(mtlmon("--max-memory", "1M", *options), "by undecided time-points")
    earned, saved = output.read_text(), checkpoint.read_bytes()
    # The same again: it goes on from the checkpoint, and comes no further.
    check(mtlmon("--max-memory", "1M", *options), "by undecided time-points")
    assert output.read_text().startswith(earned[: len(earned) // 2])
    assert checkpoint.read_bytes()[:16] == saved[:16]
    assert mtlmon("--max-memory", "100M", *options).status == 0
    assert output.read_text() == mtlmon(*NAIVE, str(log)).output


def test_several_policies_on_a_text_log(tmp_path: Path) -> None:
    policies = tmp_path / "rules.mtl"
    policies.write_text("policy a: p OR EVENTUALLY[0,1000000] q\npolicy b: ONCE p\n")
    pytest.importorskip("numpy", reason="numpy (mtlmon[arrays]) is not installed")
    log = log_of(60_000)
    options = ("--mode", "naive", str(policies))
    limited = mtlmon("--max-memory", "1M", *options, log=log)
    check(limited, "by undecided time-points")
    whole = mtlmon(*options, log=log).output
    assert len(limited.output) > 20_000
    assert whole.startswith(limited.output)


def table(directory: Path, keys: int) -> Path:
    """A table with as many keys as rows, each of which decides itself and stays pending else."""
    path = directory / "log.csv"
    rows = "".join(f"{k},user{k},{'true' if k % 2 else 'false'}\n" for k in range(keys))
    path.write_text(f"ts,user,p\n{rows}")
    return path


def test_keys_of_a_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    path = table(tmp_path, 60_000)
    options = ("--key", "user", "-e", "EVENTUALLY[0,1000000] p", str(path))
    limited = mtlmon("--max-memory", "1M", *options)
    check(limited, "of keys; allow")
    whole = mtlmon(*options).output
    assert limited.output
    assert whole.startswith(limited.output)
    for form in ("jsonl", "csv"):
        formed = ("--output-format", form, *options)
        limited = mtlmon("--max-memory", "1M", *formed)
        check(limited, "of keys; allow")
        # how far it comes depends on how many rows have been read ahead
        assert "user1" in limited.output
        assert mtlmon(*formed).output.startswith(limited.output)


def test_texts_of_keys_of_a_sorted_table(tmp_path: Path) -> None:
    """Keys get numbers before rows are sorted, when no monitor has seen an event."""
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    path = table(tmp_path, 60_000)
    options = ("--sort", "--key", "user", "-e", "ONCE[0,5] p", str(path))
    check(mtlmon("--max-memory", "1M", *options), "by the texts of keys")


def test_sorting_uses_a_share(tmp_path: Path) -> None:
    """What does not fit goes to temporary files, so that sorting alone exceeds no limit."""
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    path = table(tmp_path, 60_000)
    options = ("--sort", "-e", "ONCE[0,5] p", str(path))
    assert mtlmon("--max-memory", "2M", *options) == mtlmon(*options)


RELATIONS = """\
unit s
relation t = table "t.csv" valid [from, to) key k
relation of_rows = rows select k as j valid 5s join t on j = k select k as k
"""
LOOK_UPS = {
    "tables": ("policy p: exists t[k]", (), "log.csv"),
    "relations of rows": ("policy p: exists of_rows[k]", (), "log.csv"),
    "changes": ("policy p per k on changes of t: true", (), "log.csv"),
    "corrections": ("policy p: exists t[k]", ("--lateness", "5s"), "log.csv"),
    "variables": ("policy p: FORALL x. e(x) IMPLIES ONCE e(x)", (), "log.csv"),
    "both kinds": ("policy p: exists t[k]\npolicy q: FORALL x. e(x) IMPLIES e(x)", (), "log.csv"),
    "text": ('atom known = exists t["a"]\npolicy p: q IMPLIES known', (), "log"),
    "text with variables": (
        'atom known = exists t["a"]\npolicy p: FORALL x. e(x) AND known IMPLIES ONCE e(x)',
        (),
        "log",
    ),
    "late lines": (
        'atom known = exists t["a"]\npolicy p: q IMPLIES known',
        ("--lateness", "5s"),
        "log",
    ),
}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_relations_of_tables(name: str, tmp_path: Path) -> None:
    """The records of tables are counted while they are read."""
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    policies, options, log = LOOK_UPS[name]
    if "e(x)" in policies and log == "log.csv":
        policies = f"atom e(k) = exists t[k]\n{policies}"
    (tmp_path / "p.mtl").write_text(f"{RELATIONS}{policies}\n")
    rows = "".join(f"{'a' * 500}{number},1,2\n" for number in range(4000))
    (tmp_path / "t.csv").write_text(f"k,from,to\na,1,9\n{rows}")
    (tmp_path / "log.csv").write_text("ts,k\n1,a\n2,a\n")
    (tmp_path / "log").write_text("@1 q\n@2 q\n")
    asked = [*options, str(tmp_path / "p.mtl"), str(tmp_path / log)]
    whole = mtlmon("--max-memory", "20M", *asked)
    assert whole.status in (0, 1), whole.errors
    assert whole == mtlmon(*asked)
    check(mtlmon("--max-memory", "1M", *asked), "by rows and records of relations")


def test_the_records_of_several_tables_are_added(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    rows = "".join(f"{'a' * 500}{number},1,2\n" for number in range(1200))
    relations, policies = "unit s\n", ""
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(f"k,from,to\n{rows}")
        relations += f'relation {name} = table "{name}.csv" valid [from, to) select k as k\n'
        policies += f"policy of_{name}: exists {name}[k]\n"
    (tmp_path / "p.mtl").write_text(relations + policies)
    (tmp_path / "log.csv").write_text("ts,k\n1,a\n")
    asked = [str(tmp_path / "p.mtl"), str(tmp_path / "log.csv")]
    check(mtlmon("--max-memory", "1M", *asked), "by rows and records of relations")
    (tmp_path / "p.mtl").write_text(relations + "policy of_a: exists a[k]\n")
    assert mtlmon("--max-memory", "2M", *asked).status == 1


def test_what_finds_records_is_counted(tmp_path: Path) -> None:
    """It is made at the first look-up, and takes more than the records if these are short."""
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    (tmp_path / "t.csv").write_text(
        "k,from,to\n" + "".join(f"{number},1,2\n" for number in range(18_000))
    )
    asked = [str(tmp_path / "p.mtl"), str(tmp_path / "log.csv")]
    (tmp_path / "p.mtl").write_text(f"{RELATIONS}policy p: exists t[k]\n")
    (tmp_path / "log.csv").write_text("ts,k\n")
    assert mtlmon("--max-memory", "1M", *asked).status == 0
    (tmp_path / "log.csv").write_text("ts,k\n1,1\n")
    check(mtlmon("--max-memory", "1M", *asked), "by rows and records of relations")


def test_too_many_policies(tmp_path: Path) -> None:
    """The formulas alone are too much; with a limit, what is only for speed gets smaller first."""
    pytest.importorskip("numpy", reason="numpy (mtlmon[arrays]) is not installed")
    policies = tmp_path / "rules.mtl"
    for count, status in ((20, 0), (400, 2)):
        policies.write_text("".join(f"policy a{k}: p -> ONCE[0,{k}] q\n" for k in range(count)))
        ended = mtlmon("--max-memory", "2M", str(policies), log="@1 q\n@1 p\n@2 q\n")
        assert ended.status == status, ended.errors
    assert "the memory limit of 2 MiB is exceeded" in ended.errors


def test_the_summary_shows_the_peak(tmp_path: Path) -> None:
    ended = mtlmon("--summary", *NAIVE, log=log_of(2000))
    (line,) = [line for line in ended.errors.splitlines() if line.startswith("peak memory")]
    assert int(line.split()[2].replace(",", "")) > 50
