"""Tests of policy files and predicates."""
