"""Histories of traces: late events are judged again, and changes of verdicts are returned."""
