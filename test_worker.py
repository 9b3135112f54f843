import threading


def test_jobs_are_done_in_time(mtl_monitor):
    monitor = mtl_monitor("queued IMPLIES EVENTUALLY[0,5s] done", clock="monotonic", unit="ms")

    def work():
        monitor.event("done")

    monitor.event("queued")
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
