"""The processing loops, which read events and produce verdicts."""
