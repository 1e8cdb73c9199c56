"""Stores in PostgreSQL databases: docs/decisions/0015."""
