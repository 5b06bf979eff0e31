"""The four metrics of the articles, and what they are measured against."""

from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """Metrics of one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "idempotency_requests", "Keyed requests, by what became of them", ["endpoint", "result"], registry=registry
        )
        self.duplicates = Counter(
            "idempotency_duplicate_hits",
            "Requests under a key that was known already with the same request",
            ["endpoint"],
            registry=registry,
        )
        self.mismatches = Counter(
            "idempotency_hash_mismatches", "Requests under the key of another request", ["endpoint"], registry=registry
        )
        self.timeouts = Counter(
            "idempotency_in_progress_timeouts",
            "Leases that ran out: the request was taken over from a worker that had died or was too slow",
            ["endpoint"],
            registry=registry,
        )
        self.replay = Histogram(
            "idempotency_replay_seconds",
            "Time from the claim to a stored answer",
            ["endpoint"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=registry,
        )
        self.expired = Counter("idempotency_expired_rows", "Keys that the cleanup has deleted", registry=registry)
        self.outbox = Counter("outbox_calls", "Calls of the card processor, by outcome", ["outcome"], registry=registry)
        self._lock = threading.Lock()
        self._keyed = 0
        self._repeated = 0
        rate = Gauge(
            "idempotency_duplicate_hit_rate",
            "Share of keyed requests since the start whose key was known already",
            registry=registry,
        )
        rate.set_function(lambda: self._repeated / self._keyed if self._keyed else 0.0)

    def count(self, endpoint: str, result: str) -> None:
        """One keyed request has its answer."""
        self.requests.labels(endpoint, result).inc()
        repeated = result in {"replayed", "in_progress"}
        with self._lock:
            self._keyed += 1
            self._repeated += repeated
        if repeated:
            self.duplicates.labels(endpoint).inc()
        elif result == "mismatch":
            self.mismatches.labels(endpoint).inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)
