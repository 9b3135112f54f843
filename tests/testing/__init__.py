"""Tests of what mtlmon offers to test suites."""

from hypothesis import settings

# The engine is examined elsewhere, so a quarter of the examples is enough here.
FEWER = settings(max_examples=settings().max_examples // 4)
