"""What the documentation shows is what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs import pages

if TYPE_CHECKING:
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet


def _needs_spark(name: str) -> bool:
    return name.startswith("spark") or name == "machines.md"


def _page(name: str) -> ParameterSet:
    """The pages about Spark are run where the one session is."""
    marks = [pytest.mark.xdist_group("spark")] if _needs_spark(name) else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("page", [_page(name) for name in pages.names()])
def test_code_of_a_page(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if _needs_spark(page):
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    # as for somebody who calls Python there
    monkeypatch.syspath_prepend(tmp_path)
    complaints = list(pages.run(page))
    assert not complaints, "\n".join(complaints)
