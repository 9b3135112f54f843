def test_overload_is_noticed(mtl_monitor):
    now = 0
    monitor = mtl_monitor("queued IMPLIES EVENTUALLY[0,5] done", clock=lambda: now)
    monitor.event("queued")
    now = 6
    violation = monitor.take_violation()
    assert violation.time_point == (0, 0)
