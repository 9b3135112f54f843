"""The playground in a real browser without a head."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest

from tests.browsers import PHONE, SMALL_PHONE, WIDE, Scheme, Visit
from tests.doors import EXAMPLES, Playground, Serving, Workers, worker_command
from tests.serving.process import Serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

SECONDS = 30_000
EXAMPLE_POLICY, EXAMPLE_LOG = EXAMPLES[0].policy, EXAMPLES[0].log

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
        expect(page.locator(".legend li")).to_have_text(["bob", "ann"])
        expect(page.locator("#outcome")).to_have_text("2 violations, 4 events")
        assert visit.complaints == []


def test_no_name_is_run(browser: Browser) -> None:
    evil = "<img src=x onerror='window.injected = 1'>"
    rows = f'ts,who,x\n1,"{evil}",2\n2,"</textarea><script>window.injected = 1</script>",9\n'
    for address in served(f"{STREAMS}# {evil}\n", rows, ("--key", "who")):
        with Visit(browser, address) as visit:
            page = visit.page
            expect(page.locator("#outcome")).to_have_text("1 violation, 2 events")
            expect(page.locator(".legend li").last).to_have_text(evil)
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


def test_results_stay_while_a_text_cannot_be_read(browser: Browser, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        stale = page.locator("#stale")
        rows = page.locator("[data-pane=log] .marks .row")
        expect(page.locator("#plot .mark.false")).to_have_count(2)
        expect(stale).to_be_hidden()
        policy = page.get_by_role("textbox", name="Policy")
        policy.fill(EXAMPLE_POLICY + "policy late: request AND\n")
        expect(page.locator("#problems button")).to_have_text(re.compile("Policy, line"))
        expect(stale).to_have_text("Below are the results of the last texts that could be read.")
        expect(page.locator("#plot .mark.false")).to_have_count(2)
        expect(page.locator("body.stale #result .policy")).to_have_count(2)
        expect(rows).to_have_count(2)
        # what is shown can still be explained, with the texts that it is about
        page.get_by_role("button", name="why").first.click()
        expect(page.locator("#why")).to_contain_text("170:0 violates")
        policy.fill("policy late: request")
        expect(page.locator("#result .policy")).to_have_count(1)
        expect(stale).to_be_hidden()
        expect(page.locator("body.stale")).to_have_count(0)
        assert visit.complaints == []


def test_examples(browser: Browser, address_of_table: str) -> None:
    with Visit(browser, address_of_table) as visit:
        page = visit.page
        expect(page.locator("#outcome")).to_have_text("2 violations, 4 events")
        examples = page.get_by_label("Examples")
        assert examples.locator("option").all_inner_texts() == [
            "Examples",
            *(one.title for one in EXAMPLES),
        ]
        examples.select_option("4")
        expect(page.locator("[data-pane=log] .name")).to_have_text("orders.jsonl")
        expect(page.locator("#outcome")).to_have_text("2 violations, 10 events")
        page.get_by_label("Log").press("Control+End")
        page.keyboard.type("\n")
        # edits are not replaced without a question
        page.once("dialog", lambda dialog: dialog.dismiss())
        examples.select_option("1")
        expect(examples).to_have_value("")
        expect(page.locator("[data-pane=log] .name")).to_have_text("orders.jsonl")
        page.once("dialog", lambda dialog: dialog.accept())
        examples.select_option("1")
        expect(page.locator("[data-pane=log] .name")).to_have_text("logins.csv")
        expect(page.locator("#outcome")).to_have_text("4 violations, 9 events")
        expect(page.locator("#result .keys li").first).to_have_text("bob 3")
        assert visit.complaints == []


def test_files_can_be_opened(browser: Browser, address: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"ts,x\r\n1,2\r\n2,9\r\n")
    (tmp_path / "image.log").write_bytes(b"\x89PNG\x00\xff")
    line = b"@1 request response " + b"x" * 80 + b"\n"
    (tmp_path / "large.log").write_bytes(line * (5 << 20 >> 6))
    with Visit(browser, address) as visit:
        page = visit.page
        expect(page.locator("#outcome")).to_have_text("2 violations, 8 events")
        pane = page.locator("[data-pane=log]")

        def choose(name: str) -> None:
            with page.expect_file_chooser() as chooser:
                pane.get_by_role("button", name="Open").click()
            chooser.value.set_files(tmp_path / name)

        choose("rows.csv")
        expect(pane.locator(".name")).to_have_text("rows.csv")
        expect(page.get_by_label("Log")).to_have_value("ts,x\n1,2\n2,9\n")
        choose("image.log")
        expect(pane.locator(".notice")).to_contain_text("image.log is not text in UTF-8")
        expect(pane.locator(".name")).to_have_text("rows.csv")
        drop(page, "[data-pane=policy]", {"rules.mtl": "policy small: x < 5"})
        expect(page.locator("[data-pane=policy] .name")).to_have_text("rules.mtl")
        expect(page.locator("#outcome")).to_have_text("1 violation, 2 events")
        assert page.title() == "mtlmon: rules.mtl"
        # beside the panes, and several at once: by their names
        drop(page, "h1", {"a.mtl": "policy a: request", "b.log": "@7 request\n@8 other"})
        expect(page.locator("#outcome")).to_have_text("1 violation, 2 events")
        expect(pane.locator(".name")).to_have_text("b.log")
        choose("large.log")
        size = len(line) * (5 << 20 >> 6) / (1 << 20)
        count = (4 << 20) // len(line)
        whole = f"large.log, which has {size:.1f} MiB; the page shows 4 MiB"
        expect(pane.locator(".notice")).to_have_text(f"The first {count:,} lines of {whole}")
        expect(page.locator("#outcome")).to_have_text(f"all hold, {count:,} events")
        assert visit.complaints == []


def drop(page: Page, place: str, files: dict[str, str]) -> None:
    data = page.evaluate_handle(
        """files => {
          const data = new DataTransfer();
          for (const [name, text] of Object.entries(files)) {
            data.items.add(new File([text], name));
          }
          return data;
        }""",
        files,
    )
    for event in "dragover", "drop":
        page.locator(place).dispatch_event(event, {"dataTransfer": data})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_help_of_operators(browser: Browser, address: str, scheme: Scheme) -> None:
    with Visit(browser, address, width=PHONE, scheme=scheme) as visit:
        page = visit.page
        button = page.get_by_role("button", name="Operators")
        button.focus()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Operators")
        expect(dialog.get_by_role("row", name="UNTIL")).to_have_count(2)
        assert not is_wider_than_the_window(page)
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(button).to_be_focused()
        button.click()
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_be_hidden()
        assert visit.complaints == []


COUNT = 60_000


def test_a_log_of_many_lines_is_edited_in_parts(browser: Browser) -> None:
    lines = [f"@{time} {'request' if time % 9 else 'release'}" for time in range(COUNT)]
    for address in served(EXAMPLE_POLICY, "\n".join(lines)):
        with Visit(browser, address) as visit:
            page = visit.page
            log, part = page.get_by_label("Log"), page.locator("[data-pane=log] .part span")
            expect(part).to_have_text("Lines 1 to 2,000 of 60,000")
            assert log.evaluate("one => one.value.split('\\n').length") == 2000
            expect(page.locator("#outcome")).to_contain_text("60,000 events")
            # while the page is at work, keys are taken at once
            page.get_by_label("Policy").press("Control+End")
            for letter in "policy x: ONCE nothing":
                page.keyboard.type(letter)
            expect(page.locator("#result h3")).to_have_count(3)
            last = page.locator("#result .policy").last
            expect(last.locator(".remark").first).to_contain_text("59,900 more violations")
            # to the end, and an edit there
            log.press("Control+End")
            expect(part).to_have_text("Lines 58,001 to 60,000 of 60,000")
            page.keyboard.type("\n@70000 nothing")
            expect(page.locator("#outcome")).to_contain_text("60,001 events")
            assert log.evaluate("one => one.value.split('\\n').length") == 2001
            page.get_by_role("button", name="Earlier lines").last.click()
            expect(part).to_have_text("Lines 56,201 to 58,200 of 60,001")
            # a place in a list leads to its line
            last.get_by_role("button", name="line 100", exact=True).click()
            expect(part).to_have_text("Lines 1 to 2,000 of 60,001")
            assert log.evaluate("one => one.value.slice(0, one.selectionStart)").count("\n") == 99
            # everything is replaced by what is typed over everything
            log.press("Control+a")
            page.keyboard.type("@1 release")
            expect(part).to_be_hidden()
            expect(page.locator("#outcome")).to_have_text("2 violations, 1 event")
            assert visit.complaints == []
