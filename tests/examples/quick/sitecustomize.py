"""Short leases in the processes of an example, so that its test need not wait."""

from samekey import _named

_named.LEASE_MARGIN = 0.3  # type: ignore[attr-defined]
