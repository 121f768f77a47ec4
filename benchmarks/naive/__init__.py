"""The saga as one writes it by hand: Powertools' idempotency, a lock table, a state table, an audit table.

It is what is measured against, not what to copy: a crash between two of its writes leaves them at odds, and a worker
that wakes up late writes all the same.
"""
