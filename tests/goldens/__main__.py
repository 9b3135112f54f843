"""Records what many commands write, and compares recordings.

python -m tests.goldens record DIR
python -m tests.goldens compare DIR [OTHER]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests import forking
from tests.goldens.comparing import compare
from tests.goldens.groups import GROUPS
from tests.goldens.recording import Recorder, write

ABOUT = "about.json"


def record(folder: Path, seeds: int, only: list[str], keep: Path | None = None) -> None:
    """Record groups of commands in a folder; leave their inputs in another one, if it is given.

    Other groups that it has stay, if they are of as many seeds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / ABOUT
    before, others = json.loads(about.read_text()) if about.exists() else (seeds, [])
    others = others if before == seeds else []
    scratch = keep or Path(tempfile.mkdtemp(prefix="mtlmon-goldens-"))
    for name in GROUPS:
        path = folder / f"{name}.jsonl"
        if name not in others:
            path.unlink(missing_ok=True)
        if name in only:
            recorder = Recorder(scratch / name)
            GROUPS[name](recorder, seeds)
            write(path, recorder.entries)
            print(f"{name}: {len(recorder.entries)} commands", file=sys.stderr)
    if keep is None:
        shutil.rmtree(scratch)
    about.write_text(json.dumps([seeds, [name for name in GROUPS if name in (*only, *others)]]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.goldens", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("directory", type=Path, help="a recording")
    parser.add_argument("other", type=Path, nargs="?", help="another one (default: made now)")
    parser.add_argument("--seeds", type=int, default=20, help="record: how many (default: 20)")
    parser.add_argument("--only", action="append", choices=GROUPS, help="one group")
    parser.add_argument("--command", type=Path, help="the mtlmon of another build")
    parser.add_argument("--keep", type=Path, help="a new directory for the inputs of commands")
    parser.add_argument("--most", type=int, default=5, help="differences to show (default: 5)")
    given = parser.parse_args()
    if given.command is not None:
        # the script of an environment begins with the path of its Python
        forking.COMMAND[0] = given.command.read_text().partition("\n")[0].removeprefix("#!")
    if given.what == "record":
        record(given.directory, given.seeds, given.only or [*GROUPS], given.keep)
        return 0
    seeds, only = json.loads((given.directory / ABOUT).read_text())
    only = given.only or only
    with tempfile.TemporaryDirectory() as made:
        if given.other is None:
            record(Path(made), seeds, only, given.keep)
        lines = [*compare(given.directory, given.other or Path(made), only, given.most)]
    print(*lines or ["no difference"], sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
