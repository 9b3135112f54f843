"""Relations over validity intervals: records that are valid from a start to an end.

A relation at a time is the bag of the records that are valid then, its snapshot. An operator of
relations applies an operator of the relational algebra to every snapshot.
"""
