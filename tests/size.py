"""Counts the lines of code of the product, and lists the files in which capabilities meet.

python -m tests.size [COMMIT...]
python -m tests.size --meetings [COMMIT...]

Lines that have nothing but blanks, comments and docstrings do not count. A file exists only because
capabilities meet if its path has words of two of them (see `CAPABILITIES`), as
`streams/late_ticks.py` has words of streams and of late rows, or a word for both kinds of
policies. By default, HEAD is counted: what is not committed does not count.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("mtlmon", "cli")
SUFFIXES = (".py", ".pyi", ".pyx", ".pxd", ".pxi")

# For each capability, the words of paths that name it.
CAPABILITIES = {
    "late rows": "arrivals changed changelog correcting corrected corrections histories history "
    "late lateness past replay replays revised",
    "variables": "relational relation slice slices slicing valuations",
    "records": "relations lookup looking",
    "streams": "stream streams instance instances",
    "keys of policies": "checking/ key keyed keys",
    "findings": "explaining explanation explanations findings people reasons report reporting "
    "vacuity",
    "checkpoints": "checkpoint checkpointing checkpoints snapshots",
    "pytest": "testing/",
    "Spark": "spark/",
    "playground": "serving",
}
BOTH_KINDS = {"both", "mixed"}

ALL, MEETINGS, MEETING_FILES = TOTALS = (
    "all lines of code",
    "where capabilities meet",
    "in so many files",
)

_NAMED = {word: name for name, words in CAPABILITIES.items() for word in words.split()}
_TOKEN = re.compile(
    r"(?P<comment>\#[^\n]*)"
    r"|(?P<string>[A-Za-z]{0,2}(?:'''(?s:\\.|.)*?'''|\"\"\"(?s:\\.|.)*?\"\"\""
    r"|'(?:\\[^\n]|\\\n|[^'\\\n])*'|\"(?:\\[^\n]|\\\n|[^\"\\\n])*\"))"
    r"|(?P<end>\n)|(?P<blank>[ \t\f]+|\\\n)|(?P<code>\w+|.)"
)


def code_lines(text: str) -> int:
    """Return how many lines of a source have code; statements that are strings are docstrings."""
    lines: set[int] = set()
    # a string at the beginning of a statement, which may be a docstring
    pending: range | None = None
    is_start, depth, number = True, 0, 1
    for token in _TOKEN.finditer(text):
        kind, height = token.lastgroup, token.group().count("\n")
        touched = range(number, number + height + (kind not in ("end", "blank")))
        number += height
        if kind == "end" and not depth:
            is_start, pending = True, None
        elif kind == "string" and is_start:
            is_start, pending = False, touched
        elif kind in ("string", "code"):
            depth += (token.group() in "([{") - (token.group() in ")]}")
            lines.update(touched, pending or ())
            is_start, pending = False, None
    return len(lines)


def sources(commit: str) -> dict[str, str]:
    """Return the texts of the product at a commit, by path."""
    run = ["git", "-C", str(ROOT)]
    listed = subprocess.run(
        [*run, "ls-tree", "-r", "--name-only", commit, *PRODUCT],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    names = [name for name in listed.stdout.splitlines() if name.endswith(SUFFIXES)]
    asked = "".join(f"{commit}:{name}\n" for name in names)
    given = subprocess.run(
        [*run, "cat-file", "--batch"], input=asked.encode(), check=True, capture_output=True
    )
    texts, rest = {}, given.stdout
    for name in names:
        head, _, rest = rest.partition(b"\n")
        size = int(head.split()[-1])
        texts[name], rest = rest[:size].decode(), rest[size + 1 :]
    return texts


def capabilities(path: str) -> list[str]:
    """Return the capabilities that a path names; more than one in a file in which they meet."""
    found = re.findall("[a-z]+/?", path.rpartition(".")[0])
    words = [form for word in found for form in (word, word.removesuffix("/"))]
    named = dict.fromkeys(_NAMED[word] for word in words if word in _NAMED)
    return [*named, *["formulas", "variables"] * bool(BOTH_KINDS.intersection(words))]


def by_folder(commit: str) -> Counter[str]:
    """Return the lines of each folder at a commit, and of files in which capabilities meet."""
    found: Counter[str] = Counter()
    for path, text in sources(commit).items():
        count = code_lines(text)
        room, *below = path.split("/")
        found[f"{room}/{below[0]}/" if len(below) > 1 else f"{room}/"] += count
        found[ALL] += count
        if len(capabilities(path)) > 1:
            found[MEETINGS] += count
            found[MEETING_FILES] += 1
    return found


def print_sizes(commits: list[str]) -> None:
    """Print the lines of each folder, with a column for each commit."""
    counts = [by_folder(commit) for commit in commits]
    folders = sorted({name for own in counts for name in own} - set(TOTALS))
    width = max(map(len, [*folders, *TOTALS]))
    print(" " * width, *(f"{commit[:12]:>12}" for commit in commits))
    for name in [*folders, *TOTALS]:
        print(f"{name:{width}}", *(f"{own[name]:12,}" for own in counts))


def print_meetings(commits: list[str]) -> None:
    """Print the files in which capabilities meet, with their lines and the capabilities."""
    for commit in commits:
        texts = sources(commit)
        met = {path: named for path in texts if len(named := capabilities(path)) > 1}
        counts = {path: code_lines(texts[path]) for path in met}
        print(f"{commit}: {sum(counts.values()):,} lines in {len(met)} files")
        for path, named in met.items():
            print(f"{counts[path]:8,}  {path}  ({', '.join(named)})")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.size", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("commits", nargs="*", metavar="COMMIT", default=["HEAD"])
    parser.add_argument("--meetings", action="store_true", help="list the files")
    given = parser.parse_args()
    (print_meetings if given.meetings else print_sizes)(given.commits)


if __name__ == "__main__":
    main()
