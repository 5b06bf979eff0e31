"""The journal in PostgreSQL, through psycopg 3 and its pool: for several machines that share the work.

Make the table once, by `migrate()` or with what `schema()` prints. The journal's clock is the server's.
"""

try:
    import psycopg  # noqa: F401 - what is missing is told here, once
    import psycopg_pool  # noqa: F401
except ImportError as error:
    raise ImportError("samekey.postgres needs psycopg 3 and its pool: pip install 'samekey[postgres]'") from error

from ._async import AsyncPostgresJournal
from ._common import ClaimNotCommitted
from ._sync import PostgresJournal

__all__ = ["AsyncPostgresJournal", "ClaimNotCommitted", "PostgresJournal"]
