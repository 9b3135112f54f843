"""Tests of reports."""

from hypothesis import settings

# What is drawn here is simple, so a quarter of the examples is enough.
FEWER = settings(max_examples=settings().max_examples // 4)
