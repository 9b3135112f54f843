"""Reports in a real browser without a head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mtlmon.reporting import write_report
from tests.browsers import PHONE, SMALL_PHONE, WIDE, Scheme, Visit
from tests.reporting import sample

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EXAMINATION = Path(__file__).with_name("examination.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(sample.everything(), path)
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE, SMALL_PHONE])
def test_examination(browser: Browser, report: str, width: int, scheme: Scheme) -> None:
    with Visit(browser, report, width=width, scheme=scheme) as visit:
        for _ in range(2):
            assert visit.page.evaluate(EXAMINATION) == []
            # and once more with everything unfolded
            visit.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert visit.complaints == []
        assert visit.requests == [report]


def test_the_schemes_differ(browser: Browser, report: str) -> None:
    grounds = set()
    for scheme in "light", "dark":
        with Visit(browser, report, scheme=scheme) as visit:
            grounds.add(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_no_name_is_run(browser: Browser, report: str) -> None:
    with Visit(browser, report) as visit:
        assert visit.page.evaluate("window.injected") is None
        # even a script that got into the page would not run: the page allows its own alone
        visit.page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'),"
            " {textContent: 'window.injected = 2'}))"
        )
        assert visit.page.evaluate("window.injected") is None
        assert len(visit.complaints) == 1
        assert "Content Security Policy" in visit.complaints[0]


def test_keys_are_sorted(browser: Browser, report: str) -> None:
    with Visit(browser, report) as visit:
        table = visit.page.locator("#policy-1 table.sortable").first
        counts = [int(text) for text in table.locator("td:nth-child(2)").all_inner_texts()]
        assert counts == sorted(counts, reverse=True)
        assert len(set(counts)) > 2
        heading = table.locator("th[scope=col]").nth(1)
        button = heading.locator("button")
        for order in "descending", "ascending", "descending":
            button.focus()
            visit.page.keyboard.press("Enter")
            assert heading.get_attribute("aria-sort") == order
            found = [int(text) for text in table.locator("td:nth-child(2)").all_inner_texts()]
            assert found == sorted(counts, reverse=order == "descending")
        first = table.locator("th[scope=col]").first
        first.locator("button").click()
        assert (first.get_attribute("aria-sort"), heading.get_attribute("aria-sort")) == (
            "ascending",
            None,
        )
        names = table.locator("tbody th").all_inner_texts()
        sessions = [int(name[8:]) for name in names if name.startswith("session-")]
        assert sessions == sorted(sessions)
        assert len(sessions) > 2


def test_the_timeline_is_read_by_keys_and_by_mouse(browser: Browser, report: str) -> None:
    with Visit(browser, report) as visit:
        figure = visit.page.locator("#policy-1 figure")
        slider, output = figure.get_by_label("Look at a step"), figure.locator("output")
        peak = output.inner_text()
        assert peak.endswith("violations")
        slider.focus()
        visit.page.keyboard.press("Home")
        rows = figure.locator("tbody tr")
        first = rows.first.get_attribute("data-index")
        assert first is not None
        for _ in range(int(first)):
            assert output.inner_text() == "no violations in this step"
            visit.page.keyboard.press("ArrowRight")
        assert output.inner_text() == slider.get_attribute("aria-valuetext")
        assert output.inner_text() != peak
        assert figure.locator(".bar.chosen").get_attribute("data-index") == first
        bar = figure.locator(".bar").last
        bar.hover()
        assert figure.locator(".bar.chosen").get_attribute("data-index") == bar.get_attribute(
            "data-index"
        )


@pytest.mark.parametrize("width", [WIDE, PHONE, SMALL_PHONE])
def test_marks_of_explanations_are_seen(browser: Browser, report: str, width: int) -> None:
    with Visit(browser, report, width=width) as visit:
        picture = visit.page.locator("#policy-1 .picture").first
        frame = picture.bounding_box()
        first = picture.locator(".marks :is(circle, rect.false)").first.bounding_box()
        label = picture.locator(".labels text").first.bounding_box()
        assert frame is not None
        assert first is not None
        assert label is not None
        assert frame["x"] <= first["x"] < first["x"] + first["width"] <= frame["x"] + frame["width"]
        # beside the labels, or below them
        is_beside = first["x"] > label["x"] + label["width"]
        assert is_beside == (width == WIDE)
        assert is_beside or first["y"] >= label["y"] + label["height"] / 2


def test_bars_and_rows_of_the_timeline_lead_to_violations(browser: Browser, report: str) -> None:
    with Visit(browser, report) as visit:
        page = visit.page
        figure = page.locator("#policy-1 figure")
        more = page.locator("#policy-1 details.more")
        assert not more.evaluate("one => one.open")
        bars = figure.locator("svg a")
        # only violations that are listed can be shown
        assert 0 < bars.count() < figure.locator(".bar").count()
        target = (bars.last.get_attribute("href") or "")[1:]
        bars.last.locator(".bar").click()
        assert page.url.endswith(f"#{target}")
        assert more.evaluate("one => one.open")
        assert page.locator(f"#{target}").is_visible()
        # by keys: from a bar to its first violation, whose explanation unfolds
        figure.get_by_label("Look at a step").focus()
        page.keyboard.press("Home")
        link = figure.get_by_role("link", name="See the first of them")
        while not link.is_visible():
            page.keyboard.press("ArrowRight")
        link.focus()
        page.keyboard.press("Enter")
        assert page.url.endswith("#policy-1-violation-1")
        assert page.locator("#policy-1-violation-1 svg").is_visible()
        assert visit.complaints == []


def test_a_link_to_a_violation_unfolds_it(browser: Browser, report: str) -> None:
    with Visit(browser, f"{report}#policy-1-violation-3") as visit:
        assert visit.page.locator("#policy-1-violation-3 svg").is_visible()
        assert not visit.page.locator("#policy-1-violation-2 svg").is_visible()


def test_without_scripts_all_is_there(browser: Browser, report: str) -> None:
    with Visit(browser, report, scripts=False) as visit:
        page = visit.page
        assert not page.locator(".reader").first.is_visible()
        assert page.locator("th button").count() == 0
        explained = page.locator("#policy-1 .violations > li > details")
        assert explained.count() == 5
        assert explained.first.locator("svg").is_visible()
        assert not explained.nth(1).locator("svg").is_visible()
        explained.nth(1).locator("summary").first.click()
        assert explained.nth(1).locator("svg").is_visible()
        page.locator("#policy-1 figure summary").click()
        assert page.locator("#policy-1 figure tbody tr").first.is_visible()
        page.get_by_role("link", name="sure").click()
        assert page.url.endswith("#policy-4")
        assert visit.complaints == []


def test_on_paper(browser: Browser, report: str) -> None:
    with Visit(browser, report, scheme="dark") as visit:
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert not visit.page.locator("nav").is_visible()
        ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        assert visit.page.pdf().startswith(b"%PDF")
        # unfolded for the printer alone
        assert visit.page.locator("details:not([open])").count() > 0
