"""The stores in DynamoDB: control items and the journal. Only this package uses PynamoDB."""
