def test_orders_are_confirmed(mtl_monitor):
    monitor = mtl_monitor("order IMPLIES EVENTUALLY[0,5] confirm")
    monitor.step(1, {"order"})
    monitor.step(3, {"confirm"})
    monitor.step(4, {"order"})
    monitor.step(10)
    monitor.step(11, {"confirm"})
