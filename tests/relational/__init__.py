"""Tests of first-order policies."""
