"""What can be said of a formula before any event is read."""
