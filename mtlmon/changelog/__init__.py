"""Changelogs: verdicts about late and corrected events, collapsed and resolved."""
