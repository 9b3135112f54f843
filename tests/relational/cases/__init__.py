"""Named cases of policies with variables, each with a reason to exist.

A file holds an array of tables `[[case]]` with these keys:

name        unique among all cases
rationale   why the answers are what they are, and what would go wrong otherwise
policy      the file
log         one string for each line
table       instead of a log: one string for each line of a table in CSV
answers     one string for each line that the command writes with `--end-time inf`
error       instead of answers: a part of the message with which the run ends
refused     instead of a log and answers: a part of the message, and of its hint if there are two
signature   optional: the policy is a formula of MonPoly's, with this signature
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path(__file__).parent


class Case(NamedTuple):
    """One case."""

    name: str
    rationale: str
    policy: str
    log: tuple[str, ...] = ()
    table: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    error: str = ""
    refused: tuple[str, ...] = ()
    signature: str = ""


def load() -> list[Case]:
    """All cases, in the order of the files."""
    found = []
    for path in sorted(DIRECTORY.glob("*.toml")):
        with path.open("rb") as file:
            for entry in tomllib.load(file)["case"]:
                lists = {
                    key: tuple(value) for key, value in entry.items() if isinstance(value, list)
                }
                found.append(Case(**{**entry, **lists}))
    return found


CASES = {case.name: case for case in load()}
