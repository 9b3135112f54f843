import logging

from mtlmon.testing import LogRule, assert_holds, log_events


def test_jobs_are_queued_first(caplog):
    with caplog.at_level("INFO"):
        logging.info("job 7 queued")
        logging.info("job 7 done")
    events = log_events(
        caplog.records,
        LogRule("queued", message="queued$"),
        LogRule("done", message="done$"),
        unit="ms",
    )
    assert_holds("done IMPLIES ONCE[0,1m] queued", events, unit="ms")
