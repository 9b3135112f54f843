"""What all ways into Spark share: rows as events, their order, verdicts as columns."""
