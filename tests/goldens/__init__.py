"""Recordings of what many commands write, so that two builds can be compared command by command.

A recording has a file for each group of commands, with a line of JSON for each command: its name,
its arguments, the digest of its inputs, and what it wrote. Inputs follow from seeds alone, so that
any build can make a recording. `groups` has the commands, and `recording` says what is not recorded
as it is. `python -m tests.goldens --help` says how to make recordings, and how to compare them.
"""
