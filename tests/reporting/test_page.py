"""The page as text: escaped, well-formed, the same each time, of reasonable size."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.reporting import Collector, Definition, PolicyReport, ReportData, Run, Violation, render
from tests.reporting import sample

_VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """The elements of a page, in order, and the texts; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # of pictures, whose elements may close themselves
        assert "svg" in self.open
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def text() -> str:
    return render(sample.everything())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_names_are_text_and_nothing_else(page: Page) -> None:
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not page.all("b")
    assert not page.all("i")
    assert not page.all("u")
    assert len(page.all("h1")) == 1
    assert not [name for _, attributes in page.elements for name in attributes if name[:2] == "on"]
    shown = "".join(page.texts)
    for name in sample.HOSTILE[:5]:
        assert name in shown
    assert "nothing\ufffd\ufffd[31m\ufffdgnorts" in shown
    assert "(empty)" in shown


def test_nothing_comes_from_elsewhere(text: str, page: Page) -> None:
    for _, attributes in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,"
    assert "url(" not in text
    assert "@import" not in text
    assert re.findall(r"https?://[^\s\"'<]+", text) == ["http://www.w3.org/2000/svg"] * text.count(
        "<svg xmlns"
    )


def test_only_its_own_script_may_run(text: str, page: Page) -> None:
    (policy,) = (
        one["content"]
        for one in page.all("meta")
        if one.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_identifiers_and_references(page: Page) -> None:
    names = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(names) == len(set(names))
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "for"):
            assert set((attributes.get(name) or "").split()) <= set(names)
        href = attributes.get("href") or ""
        assert not href.startswith("#") or href[1:] in names


def test_tables_are_labelled(page: Page) -> None:
    tables = [name for name, _ in page.elements if name in ("table", "caption")]
    assert tables == ["table", "caption"] * (len(tables) // 2)
    assert all(heading.get("scope") in ("row", "col") for heading in page.all("th"))


def test_the_same_data_give_the_same_page(text: str) -> None:
    assert render(sample.everything()) == text


@pytest.mark.parametrize("unit", [None, "s"])
def test_the_unit_decides_on_dates(unit: str | None) -> None:
    text = render(sample.everything(unit))
    assert ("<time datetime=" in text) == (unit is not None)
    if unit is None:
        assert render(replace(sample.everything("s"), epoch=False)) != text


def test_outcomes() -> None:
    holds = PolicyReport(name="a", formula="p", true=5, false=0, undecided=0)
    open_ = PolicyReport(name="b", formula="p", true=5, false=0, undecided=1)
    violated = PolicyReport(name="c", formula="p", true=0, false=2, undecided=0)
    tolerated = replace(violated, false=1, is_tolerated=True)
    nothing = PolicyReport(name="d", formula="p", true=0, false=0, undecided=0)
    sentences = {
        (): "There were no events to judge.",
        (nothing,): "There were no events to judge.",
        (holds,): "The policy holds: no violation was found.",
        (holds, holds, nothing): "All policies hold: no violation was found.",
        (holds, open_): "No violation so far; 1 verdict is still open.",
        (violated,): "The policy is violated: 2 violations.",
        (holds, violated, open_): "1 of 3 policies is violated: 2 violations.",
        (tolerated,): "No policy is violated more often than it may be: 1 violation.",
        (tolerated, violated): "1 of 2 policies is violated: 2 violations.",
        (violated, violated): "2 of 2 policies are violated: 4 violations.",
    }
    for policies, sentence in sentences.items():
        assert sentence in render(ReportData(policies))


def test_millions_of_violations_make_no_large_page() -> None:
    collector = Collector("p", unit="s")
    count = 1_000_000
    for start in range(0, 3 * count, count):
        times = sample.START + np.arange(start, start + count)
        collector.add_violations(times, np.zeros(count, np.int64), np.arange(count) % 5000)
    data = ReportData([collector.report()], Run(unit="s"))
    text = render(data)
    assert "3,000,000" in text
    assert len(text) < 100_000


def test_many_definitions_are_cut() -> None:
    definitions = [
        Definition("let", f"x{number}", f"let x{number} = {'p AND ' * 2000}q")
        for number in range(3000)
    ]
    policy = PolicyReport(
        name="a", formula="p", true=1, false=0, undecided=0, definitions=definitions
    )
    text = render(ReportData([policy]))
    assert "let x99 = p" in text
    assert "let x100 = p" not in text
    assert "and 2,900 more definitions" in text
    assert len(text) < 500_000


@given(st.text(max_size=50), st.text(max_size=50), st.text(max_size=50))
def test_any_name_is_fit_for_a_page(key: str, name: str, file: str) -> None:
    policy = PolicyReport(
        name=name, formula=key, true=0, false=1, undecided=0, violations=(Violation(1, 0, key),)
    )
    page = Page(render(ReportData([policy], Run(inputs=[file], remarks=[name]), title=file)))
    assert [name for name, _ in page.elements].count("li") == 1
    assert len(page.all("script")) == 1


def test_without_jinja2_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from mtlmon.reporting import ReportData, render\n"
        "from mtlmon import MtlmonError\n"
        "try: render(ReportData([]))\n"
        "except MtlmonError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'mtlmon[report]'" in done.stdout
