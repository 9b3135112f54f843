"""Support: small helpers that know nothing of monitoring."""
