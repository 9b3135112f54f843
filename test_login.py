import logging

from mtlmon.testing import LogRule

log = logging.getLogger("shop.accounts")


def log_in(user, password):
    if password != "secret":
        log.warning("login of %s failed", user)
        return
    log.info("login of %s", user, extra={"session": 17})


def test_nobody_gets_in_after_a_failure(mtl_monitor):
    monitor = mtl_monitor("login_ada IMPLIES NOT ONCE[0,1m] failed", clock="monotonic")
    monitor.listen(
        LogRule("login_{user}", logger="shop", message=r"^login of (?P<user>\w+)$"),
        LogRule("failed", logger="shop", level="WARNING", message="failed$"),
        logger="shop",
        level="INFO",
    )
    log_in("ada", "secret")
    log_in("ada", "sesame")
    log_in("ada", "secret")
