"""Histories of traces: late events are judged again, and changes of verdicts are returned.

The history of a trace is a list of chunks (`chunks`): events in time order with their verdicts, and
the state of the engine at the start. `admission` says which rows are taken in, and `replay` judges
events again from a chunk on. A journal of a batch has the verdicts from before it (`journal`), so
only net changes are told. `following` is for letters that depend on other events. A snapshot has
the events and the first state; everything else follows from these.

`chunked` does the same, in Python, for what takes in many rows of one trace by one call: policies
with variables, and relations of the rows of a log.

`tests/reference/history.py` defines the verdicts after every batch.
"""
