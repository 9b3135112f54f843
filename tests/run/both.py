"""One run through the command and through `mtlmon.check`, which must say the same."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mtlmon
from tests.cli.process import mtlmon as command
from tests.doors import in_python, make_parser

__all__ = ["check_both", "keywords_of"]

_HERE = Path()


def keywords_of(arguments: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the files among the arguments of the command, and its options as keywords."""
    actions = {name: one for one in make_parser()._actions for name in one.option_strings}
    files: list[str] = []
    keywords: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word not in actions:
            files.append(word)
            continue
        name = max(actions[word].option_strings, key=len).lstrip("-").replace("-", "_")
        if actions[word].nargs == 0:
            keywords[name] = True
        elif name == "key":
            keywords["key"] = [*keywords.get("key", []), *rest.pop(0).split(",")]
        elif name == "null_values":
            keywords[name] = rest.pop(0).split(",")
        elif name == "set":
            constant, _, value = rest.pop(0).partition("=")
            keywords.setdefault("set", {})[constant] = value
        else:
            keywords[name] = rest.pop(0)
    return files, keywords


def check_both(policies: Path, log: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run policies on a log both ways, and compare answers, remarks, errors and the exit status."""
    done = command(*arguments, "--output-format", "jsonl", str(policies), str(log))
    written = [json.loads(line) for line in done.output.splitlines()]
    remarks = [in_python(line) for line in done.errors.splitlines()]
    _, keywords = keywords_of(arguments)
    answers: list[dict[str, Any]] = []
    emitted: list[str] = []
    status = 2
    run = None
    try:
        run = mtlmon.check(policies, log, **keywords)
        for answer in run:
            answers.append(dict(answer))
        status = run.status if run.status is not None else -1
    except mtlmon.MtlmonError as error:
        emitted = [in_python(str(error))]
    emitted = [*(run.messages if run else []), *emitted]
    assert [_plain(one) for one in answers] == [_plain(one) for one in written]
    wanted = _lines([one.removeprefix("mtlmon: ") for one in remarks])
    if status == 2 and wanted:
        # the command advises behind a line that cannot be read
        assert "\n".join(wanted).startswith("\n".join(_lines(emitted)).split("\n")[0]), (
            emitted,
            wanted,
        )
        emitted, wanted = [], []
    assert _lines(emitted) == wanted
    assert status == done.status
    return written


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """What JSON has of a row, with the types of its values; it has no infinite numbers."""
    found = {}
    for name, value in row.items():
        is_lost = isinstance(value, float) and not math.isfinite(value)
        found[name] = ("NoneType", None) if is_lost else (type(value).__name__, value)
    return found


def _lines(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in text.splitlines()]
