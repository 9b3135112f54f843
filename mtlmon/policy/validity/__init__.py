"""Relations over validity intervals as policy files declare them: syntax, and what it means."""
