"""The engine: processes one event at a time for one formula and one state."""
