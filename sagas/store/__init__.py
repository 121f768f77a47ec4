"""DynamoDB: control items, the journal, and Powertools' idempotency on top. PynamoDB lives here only."""
