"""Text: log lines to events, verdicts to lines."""
