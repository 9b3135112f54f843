"""What the pictures have in common: colours, text and the frame."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CHARACTER", "STYLE", "centred", "label", "picture"]

CHARACTER = 7.3
"""The width of a character."""

# Colours follow the reader's setting, dark or light.
STYLE = """\
.mtlmon{--ink:#1c1e21;--faint:#5f6670;--rule:#d5d9de;--ground:#fff;--true:#0b6e4f;--false:#b3261e;
font:12px ui-monospace,Menlo,Consolas,monospace}
@media (prefers-color-scheme:dark){.mtlmon{--ink:#e8eaed;--faint:#a3abb5;--rule:#3a4048;
--ground:#16181c;--true:#5fd3a5;--false:#ff8a80}}
.mtlmon text{fill:var(--ink)}.mtlmon .faint{fill:var(--faint)}
.mtlmon .rule,.mtlmon .link{stroke:var(--rule);fill:none}.mtlmon .ground{fill:var(--ground)}
.mtlmon .atom{fill:var(--ink)}.mtlmon .true{fill:var(--true)}
.mtlmon .tick{stroke:var(--ground);stroke-width:2;fill:none}
.mtlmon .false{stroke:var(--false);stroke-width:2;fill:none}"""


def picture(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """An SVG picture with a ground.

    Args:
        width: its width in pixels.
        height: its height.
        title: what it shows, in words.
        parts: the elements.
    """
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mtlmon" role="img" {size}>',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" class="ground"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def label(x: float, y: float, text: str, faint: bool = False) -> str:
    """Text that begins at x."""
    kind = ' class="faint"' if faint else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escape(text)}</text>'


def centred(x: float, y: float, text: str, faint: bool = False) -> str:
    """Text around x."""
    kind = ' class="faint"' if faint else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{kind}>{escape(text)}</text>'
