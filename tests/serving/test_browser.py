"""The playground in a real browser without a head."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest

from mtlmon.cli.serving import EXAMPLE_LOG, EXAMPLE_POLICY, worker_command
from mtlmon.serving import Playground, Serving, Workers
from tests.browsers import PHONE, SMALL_PHONE, WIDE, Scheme, Visit
from tests.serving.process import Serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

SECONDS = 30_000

driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = driver.expect

STREAMS = """\
stream mean = avg[0,10](x)
policy low: mean < 5
"""
ROWS = "ts,who,x\n1,ann,2\n2,bob,9\n3,ann,4\n4,bob,8\n"


@pytest.fixture(scope="module", autouse=True)
def patience() -> None:
    expect.set_options(timeout=SECONDS)


@pytest.fixture
def address() -> Iterator[str]:
    yield from served(EXAMPLE_POLICY, EXAMPLE_LOG)


@pytest.fixture
def address_of_table() -> Iterator[str]:
    yield from served(STREAMS, ROWS, ("--key", "who"))


def served(policy: str, log: str, arguments: tuple[str, ...] = ()) -> Iterator[str]:
    workers = Workers(worker_command(arguments), 30)
    server = Serving(Playground(policy, log, "policy.mtl", "events.log"), workers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.url
    server.shutdown()
    server.server_close()
    workers.close()
    thread.join()


def is_wider_than_the_window(page: Page) -> bool:
    width: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return width > 0


@pytest.mark.parametrize(
    ("width", "scheme"), [(WIDE, "light"), (PHONE, "dark"), (390, "light"), (SMALL_PHONE, "dark")]
)
def test_the_page(browser: Browser, address: str, width: int, scheme: Scheme) -> None:
    with Visit(browser, address, width=width, scheme=scheme) as visit:
        page = visit.page
        expect(page.locator("#outcome")).to_have_text("2 violations, 8 events")
        expect(page.locator("#plot svg")).to_be_visible()
        assert not is_wider_than_the_window(page)
        assert visit.complaints == []
        # nothing but what this server has
        assert {re.sub(r"[^/]*$", "", url) for url in visit.requests} == {address}


def test_an_edit_is_checked_and_an_error_has_its_place(browser: Browser, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        policy = page.get_by_label("Policy")
        expect(page.locator("#outcome")).to_have_text("2 violations, 8 events")
        policy.fill("p AND\n  AND q")
        expect(page.locator("#outcome")).to_have_text("1 problem")
        button = page.locator("#problems button")
        expect(button).to_have_text("Policy, line 2, column 3")
        caret = page.locator("[data-pane=policy] .marks .caret")
        expect(caret).to_have_count(1)
        button.click()
        assert policy.evaluate("one => one === document.activeElement && one.selectionStart") == 8
        expect(page.locator("#plot svg")).to_have_count(0)
        policy.fill("request IMPLIES EVENTUALLY[0,31] response")
        expect(page.locator("#outcome")).to_have_text("no violation so far, 8 events")
        expect(caret).to_have_count(0)
        page.get_by_label("Log").fill("@1 request\n@x")
        expect(page.locator("#problems button")).to_have_text(re.compile("Log, line 2"))
        assert visit.complaints == []


def test_why(browser: Browser, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        rows = page.locator("[data-pane=log] .marks .row")
        expect(rows).to_have_count(2)
        page.get_by_role("button", name="why").first.click()
        why = page.locator("#why")
        expect(why).to_be_visible()
        expect(why).to_contain_text("170:0 violates")
        assert not is_wider_than_the_window(page)
        page.keyboard.press("Escape")
        expect(why).to_be_hidden()
        page.locator("#plot .mark.false").last.click()
        expect(why).to_contain_text("500:0 violates")
        # the explanation follows the edit
        page.get_by_label("Log").fill(EXAMPLE_LOG.replace("@480 request", "@480 review"))
        expect(why).to_contain_text("500:0 satisfies")
        page.get_by_role("button", name="Close").click()
        expect(why).to_be_hidden()
        assert visit.complaints == []


def test_keys(browser: Browser, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        expect(page.locator("#outcome")).to_have_text("2 violations, 8 events")
        page.evaluate("document.querySelector('#outcome').textContent = ''")
        page.get_by_label("Policy").focus()
        page.keyboard.press("Control+Enter")
        expect(page.locator("#outcome")).to_have_text("2 violations, 8 events")
        # each mark of the plot is a button of the list, too
        marks = page.locator("#plot .mark.false").evaluate_all("all => all.map(o => o.dataset.why)")
        for mark in marks:
            expect(page.locator(f'#result button[data-why="{mark}"]')).to_have_count(1)


def test_values_of_streams(browser: Browser, address_of_table: str) -> None:
    with Visit(browser, address_of_table, width=PHONE) as visit:
        page = visit.page
        expect(page.locator("#plot .series")).to_have_count(2)
        expect(page.locator(".legend li")).to_have_text(["ann", "bob"])
        expect(page.locator("#outcome")).to_have_text("2 violations, 4 events")
        assert visit.complaints == []


def test_no_name_is_run(browser: Browser) -> None:
    evil = "<img src=x onerror='window.injected = 1'>"
    rows = f'ts,who,x\n1,"{evil}",2\n2,"</textarea><script>window.injected = 1</script>",9\n'
    for address in served(f"{STREAMS}# {evil}\n", rows, ("--key", "who")):
        with Visit(browser, address) as visit:
            page = visit.page
            expect(page.locator("#outcome")).to_have_text("1 violation, 2 events")
            expect(page.locator(".legend li").first).to_have_text(evil)
            page.get_by_role("button", name="why").first.click()
            expect(page.locator("#why")).to_be_visible()
            assert page.evaluate("window.injected") is None
            # even markup that got into the page would run nothing
            page.evaluate("one => document.body.insertAdjacentHTML('beforeend', one)", evil)
            page.wait_for_timeout(100)
            assert page.evaluate("window.injected") is None


def test_the_saved_page(browser: Browser, address: str, tmp_path: Path) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        expect(page.locator("#outcome")).to_have_text("2 violations, 8 events")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as a page").click()
        assert download.value.suggested_filename == "policy.html"
        download.value.save_as(tmp_path / "policy.html")
    saved = (tmp_path / "policy.html").as_uri()
    for width in WIDE, 390:
        with Visit(browser, saved, width=width, scripts=False) as visit:
            page = visit.page
            expect(page.locator(".outcome")).to_have_text("2 violations, 8 events")
            expect(page.locator("tr.marked")).to_have_count(2)
            reason = page.locator(".verdicts details").first
            reason.locator("summary").first.click()
            expect(reason.locator("svg")).to_be_visible()
        with Visit(browser, saved, width=width) as visit:
            assert not is_wider_than_the_window(visit.page)
            assert visit.complaints == []
            assert visit.requests == [saved]


def test_when_the_server_has_ended(browser: Browser) -> None:
    with Serve("--port", "0") as serve, Visit(browser, serve.address) as visit:
        expect(visit.page.locator("#outcome")).to_have_text("2 violations, 8 events")
        assert serve.end() == (0, "", "")
        visit.page.get_by_role("button", name="Run").click()
        expect(visit.page.locator("#outcome")).to_contain_text("mtlmon does not answer")
