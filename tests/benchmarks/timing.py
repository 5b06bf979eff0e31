"""Side by side: blocks of calls in shuffled turns, medians, and ratios of the same turn."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Of one contender: microseconds for a call, and how it compares with the first one in the same turns."""

    median: float
    best: float
    ratio: float
    above: float
    """Median of the differences to the reference, in microseconds."""

    def as_dict(self) -> dict[str, float]:
        return {
            "us": round(self.median, 2),
            "best_us": round(self.best, 2),
            "ratio": round(self.ratio, 3),
            "above_us": round(self.above, 2),
        }


def summary(times: Mapping[str, list[float]], reference: str) -> dict[str, Timing]:
    """*times* has seconds per call, one for each turn."""
    base = times[reference]
    return {
        name: Timing(
            statistics.median(own) * 1e6,
            min(own) * 1e6,
            statistics.median(a / b for a, b in zip(own, base, strict=True)),
            statistics.median(a - b for a, b in zip(own, base, strict=True)) * 1e6,
        )
        for name, own in times.items()
    }


def turns(
    blocks: Mapping[str, Callable[[], float]], rounds: int, *, reference: str, warm: int = 2
) -> dict[str, Timing]:
    """Run each of *blocks* (which give their seconds per call) once in each round, in an order drawn anew."""
    times: dict[str, list[float]] = {name: [] for name in blocks}
    gc.collect()
    for round_ in range(rounds + warm):
        for name in random.sample(list(blocks), len(blocks)):
            seconds = blocks[name]()
            if round_ >= warm:
                times[name].append(seconds)
    return summary(times, reference)


async def async_turns(
    blocks: Mapping[str, Callable[[], Awaitable[float]]], rounds: int, *, reference: str, warm: int = 2
) -> dict[str, Timing]:
    """The same, awaited."""
    times: dict[str, list[float]] = {name: [] for name in blocks}
    gc.collect()
    for round_ in range(rounds + warm):
        for name in random.sample(list(blocks), len(blocks)):
            seconds = await blocks[name]()
            if round_ >= warm:
                times[name].append(seconds)
    return summary(times, reference)


def block(call: Callable[[Any], Any], things: list[Any]) -> float:
    """Seconds for a call, over *things*."""
    began = time.perf_counter()
    for thing in things:
        call(thing)
    return (time.perf_counter() - began) / len(things)


async def async_block(call: Callable[[Any], Awaitable[Any]], things: list[Any]) -> float:
    """The same, awaited."""
    began = time.perf_counter()
    for thing in things:
        await call(thing)
    return (time.perf_counter() - began) / len(things)
