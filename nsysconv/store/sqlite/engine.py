"""What `store/database.py` asks of a package that keeps stores."""

from nsysconv.store.sqlite.asking import ask
from nsysconv.store.sqlite.connection import open_for_reading, schema_version

__all__ = ["ask", "open_for_reading", "schema_version"]
