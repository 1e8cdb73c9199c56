"""Stores in SQLite files."""

from nsysconv.store.sqlite.connection import open_for_reading, schema_version
from nsysconv.store.sqlite.writer import writing

__all__ = ["open_for_reading", "schema_version", "writing"]
