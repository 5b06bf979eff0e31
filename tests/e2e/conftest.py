from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from examples.payments_api.embedded import EmbeddedPostgres, temporary_postgres
from tests.e2e.api import Api, Stores, api_on


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A real PostgreSQL, started when the first test needs it."""
    with temporary_postgres() as server:
        yield server


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """Both databases."""
    server = request.getfixturevalue("postgres") if request.param == "postgres" else None
    return Stores(tmp_path_factory.mktemp("stores"), server)


@pytest.fixture
def start(stores: Stores) -> Iterator[Callable[..., Api]]:
    """Start the API with settings of the test's choice."""
    with ExitStack() as stack:

        def begin(**settings: Any) -> Api:
            return stack.enter_context(api_on(stores.new(), **settings))

        yield begin


@pytest.fixture
def api(start: Callable[..., Api]) -> Api:
    """The API as it is by default."""
    return start()
