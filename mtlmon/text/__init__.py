"""Text: read log lines as events, and write verdicts as lines."""
