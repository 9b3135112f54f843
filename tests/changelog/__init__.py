"""Changelogs: what their lines say in the end, and without equivalences."""
