"""What `store/database.py` asks of a package that keeps stores."""

from nsysconv.store.postgresql.connection import ask, open_for_reading
from nsysconv.store.postgresql.tables import schema_version

__all__ = ["ask", "open_for_reading", "schema_version"]
