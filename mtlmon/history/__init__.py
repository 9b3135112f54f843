"""The history of traces: late events are judged again, and what that changes is told."""
