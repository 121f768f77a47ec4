"""The journal, which is also the audit trail, and the payloads of its entries."""
