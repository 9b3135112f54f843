"""What became of each mutant: one JSON line each, and the scores of modules and folders."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutation.modules import Module
from tests.mutation.mutants import Mutant

_HERE = Path(__file__).parent
KILLED = ("failed", "crashed", "timeout")
SURVIVED = ("passed", "unreached")


@dataclass(frozen=True)
class Result:
    """outcome: that of the tests; "passed" means survived, "unreached" that no test comes to it,
    "invalid" that it is no program, "equivalent" that a reason stands in `equivalent.toml`, and
    "doubtful" that the test fails without it, too. by: the test that failed.
    """

    module: str
    mutant: str
    source: str
    line: int
    where: str
    operator: str
    before: str
    after: str
    outcome: str
    by: str = ""

    @property
    def is_counted(self) -> bool:
        return self.outcome not in ("invalid", "doubtful")


def result_of(module: Module, mutant: Mutant, outcome: str, by: str = "") -> Result:
    return Result(
        module.name,
        mutant.identity,
        mutant.source.as_posix(),
        mutant.line,
        mutant.where,
        mutant.operator,
        mutant.before,
        mutant.after,
        outcome,
        by,
    )


class Journal:
    """The results so far, kept in a file that later runs go on with: a line for each mutant.

    Mutants are known again by what they change, so a result stays as long as its lines do.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._read()
        path.parent.mkdir(parents=True, exist_ok=True)

    def _read(self) -> dict[str, _Line]:
        known: dict[str, _Line] = {}
        if self._path.exists():
            for text in self._path.read_text().splitlines():
                try:
                    line = _Line(**json.loads(text))
                except (ValueError, TypeError):
                    continue  # what an interruption left unfinished
                known[line.mutant] = line
        return known

    def add(self, result: Result) -> None:
        line = _Line(result.module, result.mutant, result.outcome, result.by)
        self._known[result.mutant] = line
        with self._path.open("a") as file:
            file.write(line.text + "\n")

    def known(self, module: Module, mutant: Mutant) -> Result | None:
        line = self._known.get(mutant.identity)
        if line is None:
            return None
        return result_of(module, mutant, line.outcome, line.by)

    def tidy(self) -> None:
        """Leave one line for each mutant, in order."""
        lines = sorted(self._read().values(), key=lambda line: (line.module, line.mutant))
        new = self._path.with_suffix(".new")
        new.write_text("".join(f"{line.text}\n" for line in lines))
        new.replace(self._path)


@dataclass(frozen=True)
class _Line:
    module: str
    mutant: str
    outcome: str
    by: str = ""

    @property
    def text(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value})


class Equivalents:
    """Mutants that no test can tell from the original, with reasons."""

    def __init__(self, path: Path = _HERE / "equivalent.toml") -> None:
        self._entries: list[dict[str, str]] = tomllib.loads(path.read_text()).get("mutant", [])
        for entry in self._entries:
            if not {"module", "before", "after", "reason"} <= entry.keys():
                raise SystemExit(f"{path.name}: an entry lacks a field: {entry}")

    @property
    def modules(self) -> set[str]:
        """The names of the modules that have such mutants."""
        return {entry["module"] for entry in self._entries}

    def has(self, module: Module, mutant: Mutant) -> bool:
        return any(
            entry["module"] == module.name and _fits(entry, module, mutant)
            for entry in self._entries
        )

    def of(self, module: Module) -> set[str]:
        """Those of a module. An entry that fits no mutant of it any more is an error."""
        found: set[str] = set()
        own = [entry for entry in self._entries if entry["module"] == module.name]
        mutants = module.mutants_of([entry["before"] for entry in own])
        for entry in own:
            fitting = {one.identity for one in mutants if _fits(entry, module, one)}
            if not fitting:
                raise SystemExit(
                    f"equivalent.toml: no mutant of {module.name} is "
                    f"'{entry['before']}' -> '{entry['after']}' any more"
                )
            found |= fitting
        return found


def _fits(entry: dict[str, str], module: Module, mutant: Mutant) -> bool:
    return (
        mutant.before == entry["before"]
        and mutant.after == entry["after"]
        and mutant.where == entry.get("where", mutant.where)
        and entry.get("below") in (None, _line_above(module, mutant))
    )


def _line_above(module: Module, mutant: Mutant) -> str:
    lines = module.originals[mutant.source].splitlines()
    return lines[mutant.line - 2].strip() if mutant.line > 1 else ""


def folder_table(results: dict[str, list[Result]]) -> str:
    """Markdown, a line for each folder, and one for all."""
    folders: dict[str, list[Result]] = {}
    for some in results.values():
        for result in some:
            parts = Path(result.source).parent.parts
            # `mtlmon` has folders of its own, which may have others
            folder = "/".join(parts[1:3] if parts[0] == "mtlmon" else parts) or "mtlmon"
            folders.setdefault(folder, []).append(result)
    every = [result for some in folders.values() for result in some]
    return score_table({**dict(sorted(folders.items())), "all": every}, "folder")


def score_table(results: dict[str, list[Result]], what: str = "module") -> str:
    """Markdown, a line for each module."""
    lines = [
        f"| {what} | mutants | killed | crashed or timed out | equivalent | survived | score |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, counted in results.items():
        killed = _count(counted, KILLED)
        violent = _count(counted, ("timeout", "crashed"))
        equivalent = _count(counted, ("equivalent",))
        survived = _count(counted, SURVIVED)
        rest = killed + survived
        score = f"{100 * killed / rest:.0f} %" if rest else "-"
        cells = (name, len(counted), killed, violent, equivalent, survived, score)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _count(results: Iterable[Result], outcomes: tuple[str, ...]) -> int:
    return sum(result.outcome in outcomes for result in results)
