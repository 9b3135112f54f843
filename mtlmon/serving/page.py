"""The page with the editors, and the page without them that shows a finding to others.

`templates/editor.js` puts at most 2,000 lines of a text into the text field, as browsers lay out a
whole field at each key. `templates/files.js` reads files.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from mtlmon._version import __version__
from mtlmon.explanation.svg import NARROW_STYLE, STYLE
from mtlmon.serving.examples import EXAMPLES
from mtlmon.serving.fragments import outcome_of, problems_of
from mtlmon.serving.help import help_of_operators
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.serving.findings import Findings
    from mtlmon.serving.server import Playground

__all__ = ["MOST_TEXT_BYTES", "POLICY_OF_CONTENT", "asset", "exported_page", "live_page"]

MOST_TEXT_BYTES = 4 << 20
"""The size of a policy or a log that the page takes."""

AROUND = 3
"""The lines of the log that an exported page shows before and behind each violation."""

FIRST_LINES = 20
MOST_LINES = 400


def _digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY_OF_CONTENT = (
    "default-src 'none'; script-src 'self'; "
    f"style-src 'self' {_digest(STYLE)}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load and run: what the server sends, and the style of explanations."""


@cache
def asset(name: str) -> str:
    """Return a file that belongs to the page; a style sheet also has what pictures need."""
    file = resources.files("mtlmon.serving") / "templates" / name
    text = file.read_text(encoding="utf-8")
    return f"{text}\n{NARROW_STYLE}\n" if name.endswith(".css") else text


def live_page(playground: Playground, secret: str) -> str:
    """Return the page with the editors.

    Args:
        playground: the texts that it begins with.
        secret: the secret of the run, which the page sends with its requests.
    """
    return asset("playground.html").format(
        secret=escape(secret),
        policy=escape(playground.policy),
        log=escape(playground.log),
        policy_name=escape(visible(playground.policy_name)),
        log_name=escape(visible(playground.log_name)),
        version=escape(__version__),
        most_bytes=MOST_TEXT_BYTES,
        examples="\n".join(
            f'<option value="{number}">{escape(one.title)}</option>'
            for number, one in enumerate(EXAMPLES)
        ),
        help=help_of_operators(),
    )


def exported_page(
    findings: Findings, result: str, texts: tuple[str, str], names: tuple[str, str]
) -> str:
    """Return a page without editors and scripts, which needs no server.

    Args:
        findings: what a run has found.
        result: the same as HTML, with explanations.
        texts: the policy and the log.
        names: their names.
    """
    style = asset("playground.css")
    kind, outcome = outcome_of(findings)
    policy = texts[0].splitlines()
    log = texts[1].splitlines()
    places = {(one.pane, one.line) for one in findings.problems}
    wrong = {line for pane, line in places if pane == "policy" and line is not None}
    bad = {line for pane, line in places if pane == "log" and line is not None}
    bad |= set(findings.violated_lines)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f'style-src {_digest(style)} {_digest(STYLE)}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(visible(names[0]))} on {escape(visible(names[1]))}</title>",
        f"<style>{style}</style></head>",
        '<body class="exported"><header><h1>mtlmon</h1>',
        f'<p class="outcome {kind}">{escape(outcome)}</p></header><main>',
        problems_of(findings.problems),
        '<div class="panes">',
        *_excerpt("Policy", names[0], policy, wrong, range(1, len(policy) + 1)),
        *_excerpt("Log", names[1], log, bad, _shown(len(log), sorted(bad))),
        "</div>",
        f'<div class="result">{result}</div>',
        f"</main><footer>mtlmon {escape(__version__)}</footer></body></html>",
        "",
    ]
    return "\n".join(parts)


def _shown(count: int, marked: Sequence[int]) -> list[int]:
    """The lines of the log to show: the first ones, and those around the marked ones."""
    shown = dict.fromkeys(range(1, min(count, FIRST_LINES) + 1))
    for line in marked:
        if len(shown) >= MOST_LINES:
            break
        shown |= dict.fromkeys(range(max(1, line - AROUND), min(count, line + AROUND) + 1))
    return sorted(shown)


def _excerpt(
    title: str, name: str, lines: Sequence[str], marked: set[int], shown: Sequence[int]
) -> Iterator[str]:
    yield f'<section class="pane"><h2>{title} <code>{escape(visible(name))}</code></h2>'
    yield '<div class="excerpt" tabindex="0" role="region"><table>'
    last = 0
    for number in list(shown)[: max(MOST_LINES, 2000)]:
        if number != last + 1:
            yield '<tr><td class="number">…</td><td></td></tr>'
        kind = ' class="marked"' if number in marked else ""
        text = escape("\t".join(map(visible, lines[number - 1].split("\t"))))
        yield f'<tr{kind}><td class="number">{number}</td><td><code>{text}</code></td></tr>'
        last = number
    if last < len(lines):
        yield f'<tr><td class="number">…</td><td>{len(lines):,} lines in all</td></tr>'
    yield "</table></div></section>"
