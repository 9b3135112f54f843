"""Links of the home page to files that are not pages lead into the repository."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import DIRECTORY

if TYPE_CHECKING:
    from types import ModuleType

_HOME = (DIRECTORY / "index.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", DIRECTORY / "building" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_home_page(hooks: ModuleType) -> None:
    """It says how to install, and links to files that are there."""
    paths = [match[2] for match in hooks._LINK_OUT.finditer(_HOME)]
    assert "README.md" in paths
    assert [path for path in paths if not (DIRECTORY.parent / path).exists()] == []
    assert "pip install" in _HOME
    text = hooks.links_out(_HOME, "https://example.org/a/b")
    assert "[repository](https://example.org/a/b/blob/HEAD/README.md)" in text
    assert "](../" not in hooks.links_out(_HOME, None)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://example.org/a/b.git", "https://example.org/a/b"),
        ("https://name:secret@example.org/a/b", "https://example.org/a/b"),
        ("git@example.org:a/b.git", "https://example.org/a/b"),
        ("ssh://git@example.org/a/b.git", "https://example.org/a/b"),
        ("/somewhere/else", None),
        ("", None),
    ],
)
def test_address(
    hooks: ModuleType, monkeypatch: pytest.MonkeyPatch, remote: str, address: str | None
) -> None:
    """A secret in the address of a remote is not published."""

    class Done:
        stdout = f"{remote}\n"

    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    monkeypatch.setattr(hooks.subprocess, "run", lambda *_, **__: Done)
    assert hooks.repository() == address


def test_address_on_github(hooks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "a/b")
    assert hooks.repository() == "https://github.com/a/b"
