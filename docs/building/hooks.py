"""What happens to pages while the site is built."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

_BLANK_LINE = re.compile("^<BLANKLINE>$", re.MULTILINE)
_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
# A link of a page in docs/ to what is not in docs/.
_LINK_OUT = re.compile(r"\[([^\]]+)\]\(\.\./([^)\s]+)\)")
_REMOTE = re.compile(r"(?:https?://(?:[^@/]*@)?|ssh://git@|git@)([^:/]+)[:/](.+?)(?:\.git)?/?")


def repository() -> str | None:
    """The address of the repository: that of a run on GitHub, else that of the remote `origin`."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    command = ["git", "-C", str(Path(__file__).parent), "remote", "get-url", "origin"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    except OSError:
        return None
    match = _REMOTE.fullmatch(done.stdout.strip())
    return None if match is None else f"https://{match[1]}/{match[2]}"


def links_out(markdown: str, address: str | None) -> str:
    """Let links to other files of the repository lead there; without an address, show the text."""

    def link(match: re.Match[str]) -> str:
        text, path = match.groups()
        return text if address is None else f"[{text}]({address}/blob/HEAD/{path})"

    return _LINK_OUT.sub(link, markdown)


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Show blank lines in what doctests print as such, and link to the repository.

    The theme could link to it from each page (`repo_url`), but would then ask GitHub for its stars
    whenever a page is read.
    """
    if page.is_homepage:
        markdown = links_out(markdown, repository())
    return _BLANK_LINE.sub("", markdown)


def on_page_content(html: str, **_: object) -> str:
    """Show a vertical bar in the code of a table's cell without the backslash before it.

    GitHub demands one in the source, and leaves it out; Python-Markdown shows it.
    """
    return _CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)
