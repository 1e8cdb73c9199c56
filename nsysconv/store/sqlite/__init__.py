"""Stores in SQLite files."""

from nsysconv.store.sqlite.connection import open_for_reading, schema_version

__all__ = ["open_for_reading", "schema_version"]
