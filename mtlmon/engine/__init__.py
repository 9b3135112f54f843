"""The engine: processes one event at a time for one formula and one state.

It follows D. Basin, B. Bhatt, D. Traytel, "Almost Event-Rate Independent Monitoring of Metric
Temporal Logic" (TACAS 2017), and knows neither files nor keys. There are two representations of a
state, expressions over obligations and a queue network, and `choice` says which one a formula gets.

A `Program` is the compiled formula. It is immutable, and shared. A `Workspace` holds expression
tables, memo tables and the BDD manager of one thread; it can be dropped for a fresh one at any
event, and the numbers that it gives to expressions mean nothing elsewhere. A `State` is a plain C
struct with everything that one monitor remembers. An `Engine` puts a program and a workspace to
work on one state at a time. A `Session` is an engine with the state of one stream, for native
callers. There is no global mutable state.

An error in the middle of an event (memory, a limit, an interrupt) leaves the monitor broken, and it
says so when it is used again. Bad time-stamps are refused before anything changes.
"""
