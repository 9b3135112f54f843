"""Tests of the reader of MonPoly's files, and of cases with MonPoly's verdicts."""
