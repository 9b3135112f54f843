"""Small helpers that know nothing about monitoring."""
