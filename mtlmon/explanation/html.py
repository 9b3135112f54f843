"""Writes proofs as a self-contained page: pictures, and trees that can be folded."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from mtlmon.explanation.outline import outline
from mtlmon.explanation.svg import NARROW_STYLE, to_svg
from mtlmon.explanation.words import entry_words, formula_text, verdict_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.explanation.outline import Entry
    from mtlmon.explanation.proof import Proof

__all__ = ["body", "page", "section", "text_section", "to_html"]

_LINES = 400
_CHARACTERS = 400

_STYLE = """\
:root{color-scheme:light dark;--ink:#1c1e21;--ground:#fff;--faint:#5f6670;--true:#0b6e4f;
--false:#b3261e;--rule:#d5d9de}
@media (prefers-color-scheme:dark){:root{--ink:#e8eaed;--ground:#16181c;--faint:#a3abb5;
--true:#5fd3a5;--false:#ff8a80;--rule:#3a4048}}
body{margin:2rem auto;max-width:72rem;padding:0 1rem;color:var(--ink);background:var(--ground);
font:1rem/1.5 system-ui,sans-serif}
code,.where{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.9em}
code{overflow-wrap:anywhere}
h2{font-size:1.1rem;margin-top:2.5rem}
.picture{overflow-x:auto;border:1px solid var(--rule);border-radius:6px}
ul{list-style:none;padding-left:1.4rem;border-left:1px solid var(--rule)}
.tree>ul,.tree{padding-left:0;border-left:0}
summary{cursor:pointer}
.true{color:var(--true)}.false{color:var(--false)}.why,.where{color:var(--faint)}"""


def to_html(proof: Proof) -> str:
    """Implements `Proof.to_html`."""
    return page([section(proof, 1)])


def page(sections: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Return a page with the given sections, and notes below them."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            "<title>mtlmon: why</title>",
            f"<style>{_STYLE}\n{NARROW_STYLE}</style></head>",
            "<body><main><h1>Why</h1>",
            *sections,
            *(f"<p>{escape(note)}</p>" for note in notes),
            "</main></body></html>",
            "",
        ]
    )


def section(
    proof: Proof, number: int, title: str | None = None, details: Sequence[str] = ()
) -> str:
    """Return the section of a page that shows a proof.

    Args:
        proof: the proof to show.
        number: the number of the section on the page.
        title: the policy or trace that the proof is about, if the page has several.
        details: lines about the time-point, such as values.
    """
    formula = formula_text(proof.formula, _CHARACTERS, proof.trace.wording)
    heading = f"{escape(verdict_text(proof))} <code>{escape(formula)}</code>"
    return _section(number, title, heading, details, body(proof, f"picture-{number}"))


def text_section(
    text: str, number: int, title: str | None = None, details: Sequence[str] = ()
) -> str:
    """Return the section of a page that shows an explanation as text.

    Args:
        text: the explanation; its first line becomes the heading.
        number: the number of the section on the page.
        title: the policy or trace that it is about, if the page has several.
        details: lines that precede it.
    """
    first, _, rest = text.partition("\n")
    shown = f'<pre class="picture">{escape(rest)}</pre>'
    return _section(number, title, f"<code>{escape(first)}</code>", details, shown)


def _section(
    number: int, title: str | None, heading: str, details: Sequence[str], content: str
) -> str:
    before = "" if title is None else f"{escape(title)}: "
    return "\n".join(
        [
            f'<section aria-labelledby="proof-{number}">'
            f'<h2 id="proof-{number}">{before}{heading}</h2>',
            *(f"<p>{escape(line)}</p>" for line in details),
            content,
            "</section>",
        ]
    )


def body(proof: Proof, name: str) -> str:
    """Return the picture and the tree, without a heading.

    Args:
        proof: the proof to show.
        name: a prefix for the identifiers in the picture, unique on the page.
    """
    return "\n".join(_lines(proof, name))


def _lines(proof: Proof, name: str) -> Iterator[str]:
    entries = list(outline(proof, _LINES))
    yield '<div class="picture" role="region" aria-label="timeline" tabindex="0">'
    yield to_svg(proof, name)
    yield '</div><div class="tree"><ul>'
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        yield from _item(entry, 0 if following is None else len(following.ancestry))
    yield "</ul></div>"


def _item(entry: Entry, depth_of_next: int) -> Iterator[str]:
    """The entry's list item: open if there are entries below it, else closed with all that end."""
    depth = len(entry.ancestry)
    if depth_of_next > depth:
        yield f"<li><details open><summary>{_words(entry)}</summary><ul>"
    else:
        ended = "</ul></details></li>" * (depth - depth_of_next)
        yield f"<li>{_words(entry)}</li>{ended}"


def _words(entry: Entry) -> str:
    if not entry.proofs:
        return f'<span class="why">… {escape(entry.remark)}</span>'
    where, why = entry_words(entry)
    proof = entry.proofs[0]
    kind, mark, verb = ("true", "✓", "holds") if proof.value else ("false", "✗", "fails")
    return (
        f'<span class="{kind}" role="img" aria-label="{verb}">{mark}</span> '
        f'<span class="where">{escape(where)}</span> '
        f"<code>{escape(formula_text(proof.formula, _CHARACTERS, proof.trace.wording))}</code>"
        f'<span class="why">{escape(why)}</span>'
    )
