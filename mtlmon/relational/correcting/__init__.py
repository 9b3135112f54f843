"""Answers of policies with variables on events that come late or are taken back."""
