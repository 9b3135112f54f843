"""Tests of the formula front end."""
