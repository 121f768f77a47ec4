"""The journal, which is the audit trail, and the payloads of its entries."""
