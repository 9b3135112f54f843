"""Tests of what is computed from formulas alone."""
