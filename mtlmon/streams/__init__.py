"""Streams: values over time that formulas and conditions use."""
