"""What first-order policies write: lines and arrays of answers."""
