"""The pictures are those that are drawn, and say what the semantics says."""

from __future__ import annotations

import pytest

from tests.docs import pages, pictures

FILES = pictures.all_files()


@pytest.mark.parametrize("name", FILES)
def test_picture_is_up_to_date(name: str) -> None:
    path = pictures.PICTURES / f"{name}.svg"
    assert path.read_text(encoding="utf-8") == FILES[name]


def test_every_picture_is_shown() -> None:
    shown = "".join(
        (pages.DIRECTORY / page).read_text(encoding="utf-8")
        for page in ("semantics.md", "patterns.md", "late.md", "relations.md")
    )
    for name in FILES:
        assert f"(pictures/{name}.svg)" in shown
    assert sorted(path.stem for path in pictures.PICTURES.iterdir()) == sorted(FILES)
