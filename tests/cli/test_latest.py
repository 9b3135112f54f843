"""The subcommand latest, and resolve on changelogs, seen from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.process import Live, mtlmon, shell

CHANGES = "5:1 = 5:0\n5:0 true\n7:0 false\n!5:0 false\n!@6\n8:0 true\n!x7:0\n"


def test_latest(tmp_path: Path) -> None:
    file, target = tmp_path / "x.changes", tmp_path / "latest"
    file.write_text(CHANGES)
    verdicts = "5:0 false\n5:1 = 5:0\n8:0 true\n"
    assert mtlmon("latest", str(file)) == (1, verdicts, "")
    assert mtlmon("latest", "-", log=CHANGES) == (1, verdicts, "")
    assert mtlmon("latest", "-o", str(target), str(file)) == (1, "", "")
    assert target.read_text() == verdicts
    resolved = verdicts.replace("= 5:0", "false")
    assert mtlmon("latest", "--resolve", str(file)) == (1, resolved, "")
    done = mtlmon("latest", "--resolve", "--verdicts", "false", str(file))
    assert done == (1, "5:0 false\n5:1 false\n", "")
    assert mtlmon("latest", "--verdicts", "none", str(file)) == (1, "", "")
    left_out = "mtlmon: 1 verdict left out (--final): not below a final bound\n"
    assert mtlmon("latest", "--final", str(file)) == (1, "5:0 false\n5:1 = 5:0\n", left_out)
    assert mtlmon("latest", log="5:0 false\n!5:0 true\n") == (0, "5:0 true\n", "")
    assert mtlmon("latest", log="") == (0, "", "")
    assert mtlmon("latest", log="5:1 = 5:0") == (
        0,
        "5:1 = 5:0\n",
        "mtlmon: 1 time-point stays open: equivalent to ones without a Boolean verdict\n",
    )


def test_what_is_found_is_no_violation() -> None:
    found = "f\t1:0 match (u=a)\nf\t2:0 match (u=b)\n"
    assert mtlmon("latest", log=found) == (0, found, "")
    violated = f"{found}p\t2:0 false (u=b)\n"
    assert mtlmon("latest", log=violated) == (1, violated, "")


def test_resolve() -> None:
    resolved = "5:0 true\n5:1 true\n7:0 false\n!5:0 false\n!5:1 false\n!@6\n8:0 true\n!x7:0\n"
    assert mtlmon("resolve", "--changelog", log=CHANGES) == (1, resolved, "")
    some = "7:0 false\n!5:0 false\n!5:1 false\n!@6\n!x7:0\n"
    assert mtlmon("resolve", "--changelog", "--verdicts", "false", log=CHANGES) == (1, some, "")
    assert mtlmon("resolve", "--changelog", "--verdicts", "none", log=CHANGES) == (1, "", "")
    assert mtlmon("resolve", "--changelog", log="5:0 false\n!5:0 true\n").status == 0
    done = shell('printf "%s" "$1" | $M resolve --changelog | $M latest', CHANGES)
    assert done.output == mtlmon("latest", "--resolve", log=CHANGES).output


def test_errors(tmp_path: Path) -> None:
    assert mtlmon("latest", log="5:0 true\n6:0 true\n!5:0 tru\n") == (
        2,
        "",
        "mtlmon: <stdin>:3:5: expected ' true', ' false' or ' = TIME-STAMP:OFFSET', found ' ' "
        "(!5:0 tru)\n",
    )
    # What is final has been written.
    done = mtlmon("latest", log="5:0 true\n!@6\n!5:0 false")
    assert done == (
        2,
        "5:0 true\n",
        "mtlmon: <stdin>:3:1: verdicts below 6 are final (!5:0 false)\n",
    )
    many = "".join(f"{time}:0 true\n" for time in range(10_000))
    done = mtlmon("latest", "--max-memory", "1M", log=many)
    assert done.status == 2
    assert done.errors.startswith("mtlmon: the memory limit of 1 MiB is exceeded")
    final = "".join(f"{time}:0 true\n!@{time}\n" for time in range(10_000))
    assert mtlmon("latest", "--max-memory", "1M", log=final).output == many


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["latest", "a", "b"],
            "several files (a, b): name one at a time (see mtlmon latest --help)",
        ),
        (
            ["resolve", "--changelog", "--in-order"],
            "--changelog and --in-order exclude each other: mtlmon latest --resolve writes the "
            "latest verdicts in order (see mtlmon resolve --help)",
        ),
        (["lates", "x"], "cannot read lates: no such file; did you mean 'mtlmon latest'?"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    assert mtlmon(*arguments) == (2, "", f"mtlmon: {message}\n")


def test_a_live_pipe_sees_what_is_final_promptly() -> None:
    with Live("latest", "--final") as live:
        for time in range(1, 6):
            live.send(f"{time}:0 false\n!{time}:0 true\n!@{time + 1}\n")
            assert live.read_line(1.5) == f"{time}:0 true"
        assert live.end() == (0, "", "")
