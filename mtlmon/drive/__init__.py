"""The loops from events to verdicts."""
