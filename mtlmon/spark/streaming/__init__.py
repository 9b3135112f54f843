"""Monitors streaming data frames; the monitors of keys are in Spark's state store.

A row of a stream is packed with others of its group (`exchange`, by `packing` or `slice_rows`),
goes into the one stateful processor (`processor`), and there into the node of its group (`nodes`):
a bucket of keys (`bucket_host`, `bucket_state`), a slice of policies with variables (`slice_host`,
`slice_state`), or the relations of all rows (`relation_state`). Where late rows correct what slices
answer, `slice_corrections` takes the place of the second. What nodes say is unpacked to rows again
(`exchange`). Between batches, a node is a journal of entries (`journal`, `entries`).
`slice_checkpoints` and `slice_moving` are for a restart with other slices.
"""
