"""Each refusal of a combination is in one table of the documentation, with its reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import mtlmon
from tests.docs.limits import PAGE, TABLE, written
from tests.doors import REFUSALS

ROOT = Path(mtlmon.__file__).parent
CHECKOUT = Path(__file__).parents[2]
WORDS = re.compile(r"\b(?:does|do) not (?:work|support)\b|\bis not possible where\b")


def sources() -> list[Path]:
    """The modules of the package and the command."""
    return [*sorted(ROOT.rglob("*.py")), *sorted((CHECKOUT / "cli").rglob("*.py"))]


def refused_in(tree: ast.AST) -> list[str]:
    """The names of the refusals that a module raises."""
    return [
        "".join(
            str(part.value) if isinstance(part, ast.Constant) else "*"
            for part in (name.values if isinstance(name, ast.JoinedStr) else [name])
        )
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "refused" and call.args
        for name in call.args[:1]
    ]


def test_the_tables_are_those_of_the_messages() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(TABLE.findall(text)) == 2
    assert text == written(text), "run python -m tests.docs.limits"


def test_every_refusal_is_raised_somewhere_and_nothing_else_is() -> None:
    used = {name for path in sources() for name in refused_in(ast.parse(path.read_bytes()))}
    patterns = [re.compile(re.escape(name).replace(r"\*", ".*")) for name in used]
    unused = [name for name in REFUSALS if not any(one.fullmatch(name) for one in patterns)]
    assert not unused
    assert all(any(one.fullmatch(name) for name in REFUSALS) for one in patterns)


def test_no_message_refuses_a_combination_on_its_own() -> None:
    """What is written in other messages would be in no table."""
    found = []
    for path in sources():
        if path.name == "refusals.py":
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            is_call = isinstance(node, ast.Raise) or (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).rpartition(".")[2] in ("refuse", "error")
            )
            if not is_call:
                continue
            texts = [one for one in ast.walk(node) if isinstance(one, ast.Constant)]
            found += [
                f"{path}:{one.lineno}: {one.value}"
                for one in texts
                if isinstance(one.value, str) and WORDS.search(one.value)
            ]
    assert not found


def test_texts_say_what_differs() -> None:
    for one in REFUSALS.values():
        names = {name: f"<{name}>" for name in one.names}
        message = one.message(names)
        assert "{" not in message
        assert all(f"<{name}>" in message for name in names)
