"""Stores in PostgreSQL databases: docs/decisions/0015."""

from nsysconv.store.postgresql.connection import open_for_reading
from nsysconv.store.postgresql.tables import schema_version

__all__ = ["open_for_reading", "schema_version"]
