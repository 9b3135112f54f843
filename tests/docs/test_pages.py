"""What the documentation shows is what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs import pages

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", pages.names())
def test_code_of_a_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    complaints = list(pages.run(page))
    assert not complaints, "\n".join(complaints)
