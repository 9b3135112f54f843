"""A run over a log: from what is asked for to the verdicts, findings and checkpoints."""
