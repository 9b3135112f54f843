"""Answers of policies with variables on events that come late or are taken back.

A history that judges nothing admits the events (`admission`); `chunks` has the time-points and the
states between them; `points` gives both a batch, and says which answers have changed; `holding`
says for which keys nothing violates a policy, where all rows of a time-stamp are one time-point.
"""
