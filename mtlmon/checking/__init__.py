"""Check policies on a log in one pass, on a single trace or on one trace per key.

A log is an `EventSource`, which has batches of events (`sources`). `log_check` takes logs in the
order of time, and `history_check` takes rows as they come, and corrects verdicts. `partitions` says
how policies divide a log into traces, and `outputs` makes lines of verdicts. What needs the rows of
verdicts, or shows something with them, stands beside the check: `row_tracking`, `shown`,
`explaining`.
"""
