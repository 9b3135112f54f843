"""Histories of late and corrected events."""
