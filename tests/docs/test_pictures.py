"""The pictures are those that are drawn, and say what the semantics says."""

from __future__ import annotations

import pytest

from tests.docs import pages, pictures


@pytest.mark.parametrize("picture", pictures.ALL, ids=lambda picture: picture.name)
def test_picture_is_up_to_date(picture: pictures.Picture) -> None:
    path = pictures.PICTURES / f"{picture.name}.svg"
    assert path.read_text(encoding="utf-8") == pictures.draw(picture)


def test_every_picture_is_shown() -> None:
    shown = "".join(
        (pages.DIRECTORY / page).read_text(encoding="utf-8")
        for page in ("semantics.md", "patterns.md")
    )
    for picture in pictures.ALL:
        assert f"(pictures/{picture.name}.svg)" in shown
    assert sorted(path.stem for path in pictures.PICTURES.iterdir()) == sorted(
        picture.name for picture in pictures.ALL
    )
