"""Events from the records of `logging`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from mtlmon import MtlmonError
from mtlmon.errors import TraceError, UnknownAtomWarning, ViolationError
from mtlmon.testing import LiveMonitor, LogHandler, LogRule, assert_holds, log_events
from tests.doors import Unknown


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("mtlmon-test.server")
    yield logger
    assert logger.handlers == []
    assert logger.level == logging.NOTSET


def record(
    message: str = "", *, name: str = "app.web", level: int = logging.INFO, **fields: object
) -> logging.LogRecord:
    made = logging.LogRecord(name, level, "app.py", 1, message, (), None)
    made.__dict__.update(fields)
    return made


@pytest.mark.parametrize(
    ("rule", "atom"),
    [
        (LogRule("a"), "a"),
        (LogRule("a", logger="app"), "a"),
        (LogRule("a", logger="app.web"), "a"),
        (LogRule("a", logger="ap"), None),
        (LogRule("a", logger="app.web.views"), None),
        (LogRule("a", level="info"), "a"),
        (LogRule("a", level=logging.WARNING), None),
        (LogRule("a", message="^GET"), "a"),
        (LogRule("a", message="home$"), "a"),
        (LogRule("a", message="^home"), None),
        (LogRule("a", fields={"status": 200}), "a"),
        (LogRule("a", fields={"status": 404}), None),
        (LogRule("a", fields={"absent": None}), None),
        (LogRule("a", fields={"status": lambda status: status < 300, "user": "ada"}), "a"),
        (LogRule("a", fields={"status": lambda status: status > 300}), None),
        (LogRule("{user}_{status}"), "ada_200"),
        (LogRule("{verb}_{path}", message=r"(?P<verb>\w+) /(?P<path>\w+)"), "GET_home"),
        (LogRule("{{{levelname}}}"), "{INFO}"),
    ],
)
def test_rules(rule: LogRule, atom: str | None) -> None:
    assert rule.atom_of(record("GET /home", status=200, user="ada")) == atom


def test_messages_are_formatted() -> None:
    made = logging.LogRecord("app", logging.INFO, "app.py", 1, "took %d s", (7,), None)
    assert LogRule("took_{time}", message=r"took (?P<time>\d+)").atom_of(made) == "took_7"


def test_rules_that_make_no_sense() -> None:
    with pytest.raises(MtlmonError, match="no level of logging is called 'loud'"):
        LogRule("a", level="loud")
    with pytest.raises(MtlmonError, match="log rule for 'a': "):
        LogRule("a", message="(")
    with pytest.raises(MtlmonError, match=r"log rule for .\{user.: "):
        LogRule("{user")
    with pytest.raises(MtlmonError, match="the record 'hello' has no field 'user'"):
        LogRule("{user}").atom_of(record("hello"))


def test_a_listening_monitor(logger: logging.Logger) -> None:
    with LiveMonitor("NOT error", clock="monotonic", unit="s") as monitor:
        monitor.listen(LogRule("error", level="ERROR"), logger=logger.name)
        logger.warning("all is well")
        logger.info("not even seen")
        assert "0 events" in repr(monitor)
        # The code that logs is not disturbed.
        logger.error("boom")
        with pytest.raises(ViolationError, match="0:0 violates NOT error"):
            monitor.check()
        assert monitor.take_violation() is not None


def test_one_event_for_all_rules_that_match(logger: logging.Logger) -> None:
    with LiveMonitor("start IMPLIES user_7", clock="monotonic") as monitor:
        monitor.listen(
            LogRule("start", message="starts"),
            LogRule("user_{user}", fields={"user": lambda user: True}),
            LogRule("end", message="ends"),
            logger=logger,
            level="DEBUG",
        )
        assert logger.level == logging.DEBUG
        logger.debug("starts", extra={"user": 7})
        logger.debug("goes on")
        logger.debug("ends")
        assert "2 events" in repr(monitor)


def test_records_of_other_threads(logger: logging.Logger) -> None:
    monitor = LiveMonitor("NOT boom", clock="monotonic")
    monitor.listen(LogRule("boom", message="boom"), logger=logger)
    thread = threading.Thread(target=logger.error, args=("boom",))
    thread.start()
    thread.join()
    with pytest.raises(ViolationError, match="boom"):
        monitor.close()


def test_a_rule_that_fails_is_told_to_the_owner(logger: logging.Logger) -> None:
    monitor = LiveMonitor("true", clock="monotonic")
    monitor.listen(LogRule("{user}"), logger=logger)
    logger.error("nobody")
    with pytest.raises(MtlmonError, match="the record 'nobody' has no field 'user'"):
        monitor.close()


def test_records_after_the_end_are_ignored() -> None:
    monitor = LiveMonitor("NOT a", clock="monotonic")
    handler = LogHandler(monitor, [LogRule("a")])
    monitor.close()
    handler.handle(record("late"))
    monitor.close()


def test_the_root_logger_is_the_default() -> None:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    with LiveMonitor("NOT a", clock="monotonic", unknown="ignore") as monitor:
        monitor.listen(LogRule("b"), level="INFO")
        logging.getLogger("mtlmon-test.anything").info("x")
        assert "1 events" in repr(monitor)
    assert (list(root.handlers), root.level) == before


def test_recorded_logs(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("mtlmon-test.jobs")
    rules = (LogRule("queued", message="queued"), LogRule("done", message="done"))
    with caplog.at_level("INFO"):
        logger.info("job queued")
        logger.info("nothing")
        logger.info("job done")
    events = log_events(caplog.records, *rules, unit="m")
    assert [atoms for _, atoms in events] == [{"queued"}, {"done"}]
    assert_holds("done IMPLIES ONCE[0,1h] queued", events, unit="m")


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("ns", [250_000_000, 1_500_250_000]),
        ("us", [250_000, 1_500_250]),
        ("ms", [250, 1500]),
        ("s", [0, 1]),
    ],
)
def test_units_of_recorded_logs(unit: str, expected: list[int]) -> None:
    records = [record(created=1.50025), record(created=0.25)]
    assert [stamp for stamp, _ in log_events(records, LogRule("a"), unit=unit)] == expected


def test_unknown_units_of_recorded_logs() -> None:
    with pytest.raises(MtlmonError, match="the unit is one of"):
        log_events([], LogRule("a"), unit="fortnight")


def test_a_logger_that_drops_records() -> None:
    rules = LogRule("start", message="starts"), LogRule("other", level="ERROR")
    logger = logging.getLogger("shop.quiet")
    formula = "start IMPLIES ONCE (start OR late)"

    def listen(unknown: Unknown = None, level: str | None = None) -> None:
        with LiveMonitor(formula, clock="monotonic", unknown=unknown) as monitor:
            monitor.listen(*rules, logger=logger, level=level)
            logger.info("job starts")
            monitor.event("late")

    words = "no log record matched the rule for 'start', but the logger 'shop.quiet' only makes"
    with pytest.warns(UnknownAtomWarning, match=words) as warned:
        listen()
    assert warned[0].filename == __file__
    with pytest.raises(TraceError, match="from WARNING on: pass level='INFO'"):
        listen("error")
    listen("ignore")
    listen(level="INFO")
    listen(level="ERROR")
    logger.setLevel("INFO")
    try:
        listen()
    finally:
        logger.setLevel("NOTSET")
