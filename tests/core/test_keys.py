"""Keys and fingerprints."""

from __future__ import annotations

import os
import random
import re
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
import uuid6
from hypothesis import assume, given
from hypothesis import strategies as st

import samekey
from samekey._keys import MAX_KEY_BYTES, check_key, check_name, digest, fingerprint, is_multipart

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class TestNewKey:
    """A UUIDv7, each time another."""

    def test_it_is_a_bare_canonical_lower_case_uuid7(self) -> None:
        """36 characters, no quotes, no braces."""
        assert UUID7.fullmatch(samekey.new_key())

    def test_keys_of_one_process_are_distinct_and_in_order(self) -> None:
        """Also many in one millisecond: sorting by key sorts by time."""
        keys = [samekey.new_key() for _ in range(2000)]

        assert len(set(keys)) == 2000
        assert keys == sorted(keys)

    def test_a_seeded_random_module_makes_no_equal_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The last 74 bits are the operating system's, even with the clock and the counter where they were."""
        monkeypatch.setattr(uuid6, "time", SimpleNamespace(time_ns=lambda: 1_800_000_000_000_000_000))
        keys = []
        for _ in range(2):
            random.seed(0)
            monkeypatch.setattr(uuid6, "_last_v7_timestamp", None)
            keys.append(samekey.new_key())

        assert keys[0][:13] == keys[1][:13]
        assert keys[0] != keys[1]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_forked_children_make_distinct_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """BR-56: eight children, a clock that stands still, a seeded `random`: 80 000 keys, all distinct."""
        monkeypatch.setattr(uuid6, "time", SimpleNamespace(time_ns=lambda: 1_800_000_000_000_000_000))
        made = {samekey.new_key()}
        pipes = []
        for _ in range(8):
            reading, writing = os.pipe()
            if os.fork() == 0:
                status = 1
                try:
                    random.seed(0)
                    with os.fdopen(writing, "w") as out:
                        out.write("\n".join(samekey.new_key() for _ in range(10_000)))
                    status = 0
                finally:
                    os._exit(status)
            os.close(writing)
            pipes.append(reading)
        for reading in pipes:
            with os.fdopen(reading) as keys:
                made.update(keys.read().split())
        for _ in pipes:
            assert os.wait()[1] == 0

        assert len(made) == 80_001


class TestDeriveKey:
    """The same key from the same names, everywhere."""

    def test_it_never_changes(self) -> None:
        """A key that other versions and machines derive as well: this value is a promise."""
        assert samekey.derive_key("billing.example.com/charges", "order-4821") == "9ee9ba2d-89ce-5ea8-83cf-880ab201f5c1"

    def test_a_uuid_as_namespace_is_the_uuid5_of_the_standard(self) -> None:
        """Then others can derive it with their own library."""
        assert samekey.derive_key(uuid.NAMESPACE_URL, "x") == str(uuid.uuid5(uuid.NAMESPACE_URL, "x"))

    def test_both_inputs_count(self) -> None:
        """Another name or another namespace is another key; the border between them counts too."""
        pairs = [("a", "b"), ("a", "c"), ("b", "b"), ("ab", "c"), ("a", "bc")]

        assert len({samekey.derive_key(*pair) for pair in pairs}) == 5

    @pytest.mark.parametrize(
        ("namespace", "name", "error"),
        [
            ("", "x", ValueError),
            (" ", "x", ValueError),
            ("n", "", ValueError),
            ("n", "\t", ValueError),
            (None, "x", TypeError),
            (5, "x", TypeError),
            (b"n", "x", TypeError),
            ("n", None, TypeError),
            ("n", 4821, TypeError),
            ("n", b"x", TypeError),
        ],
    )
    def test_bad_input(self, namespace: Any, name: Any, error: type[Exception]) -> None:
        """An order number as an int is refused: 4821 and "4821" would be two keys for one order."""
        with pytest.raises(error, match="name"):
            samekey.derive_key(namespace, name)


class TestCheckKey:
    """What can be sent in a header line and comes back unchanged."""

    @pytest.mark.parametrize("key", ["k", "a b", 'with "quotes" and \\', "~!" * 512])
    def test_good_keys_come_back(self, key: str) -> None:
        """Printable ASCII, up to the limit."""
        assert check_key(key) is key

    @pytest.mark.parametrize(
        ("key", "error", "words"),
        [
            ("", ValueError, "empty"),
            (" ", ValueError, "blank"),
            ("\t\n", ValueError, "blank"),
            (" k", ValueError, "begin or end"),
            ("k ", ValueError, "begin or end"),
            ("k" * (MAX_KEY_BYTES + 1), ValueError, "1025 bytes.*1024"),
            ("clé", ValueError, r"ASCII.*position 2"),
            ("k\r\nX-Evil: 1", ValueError, r"position 1"),
            ("k\n", ValueError, "position 1"),
            ("k\0", ValueError, "position 1"),
            ("k\x7f", ValueError, "position 1"),
            ("k\udc80", ValueError, "position 1"),
            (b"k", TypeError, "str, not bytes"),
            (5, TypeError, "str, not int"),
            (True, TypeError, "str, not bool"),
            (None, TypeError, "str, not NoneType"),
            (uuid.UUID(int=0), TypeError, "str, not UUID"),
        ],
    )
    def test_bad_keys(self, key: Any, error: type[Exception], words: str) -> None:
        """Each is refused with a reason, and the reason never shows the key."""
        with pytest.raises(error, match=words) as caught:
            check_key(key)
        assert not isinstance(key, str) or len(key) < 3 or key.strip() not in str(caught.value)

    def test_a_shorter_limit(self) -> None:
        """An API may allow less."""
        assert check_key("x" * 32, longest=32)
        with pytest.raises(ValueError, match=r"33 bytes.*32"):
            check_key("x" * 33, longest=32)

    @given(st.text())
    def test_what_passes_is_a_header_value(self, key: str) -> None:
        """Whatever passes can be encoded, and survives the stripping of a header line."""
        try:
            check_key(key)
        except ValueError:
            return
        assert key.encode("ascii").strip() == key.encode()


@pytest.mark.parametrize(("name", "error"), [("", ValueError), (" \n", ValueError), (5, TypeError), (b"n", TypeError)])
def test_names_are_checked(name: Any, error: type[Exception]) -> None:
    """The message says which setting was wrong."""
    with pytest.raises(error, match="scope must"):
        check_name("scope", name)


def test_a_digest_is_short_and_steady() -> None:
    """Eight hexadecimal digits that logs of different days agree on."""
    assert digest("key-1") == "be297454"
    assert digest("ключ") != digest("key-1")


def multipart(boundary: str, content: str = "hello") -> tuple[bytes, str]:
    """A form with one part, and its content type."""
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="f"\r\n\r\n{content}\r\n--{boundary}--\r\n'
    return body.encode(), f"multipart/form-data; boundary={boundary}"


URL = (b"https", b"api.example.com", b"443", b"/v1/charges")
parts = st.tuples(
    st.sampled_from(["POST", "PATCH", "PUT"]),
    st.tuples(st.binary(max_size=4), st.binary(max_size=4), st.binary(max_size=4), st.binary(max_size=4)),
    st.binary(max_size=8),
    st.lists(st.text(max_size=4), max_size=3).map(tuple),
)


class TestFingerprint:
    """What makes two requests the same request."""

    def test_a_multipart_boundary_is_a_constant(self) -> None:
        """It is drawn anew each time the form is built."""
        first, second = (fingerprint("POST", URL, *multipart(boundary)) for boundary in ("a1b2", "c3d4"))

        assert first == second

    @pytest.mark.parametrize(
        "content_type",
        [
            'multipart/form-data; boundary="B"',
            "Multipart/Form-Data; charset=utf-8; Boundary=B",
            "multipart/mixed;boundary=B",
        ],
    )
    def test_however_the_boundary_is_written(self, content_type: str) -> None:
        """Quoted, after another parameter, in any letter case."""
        assert is_multipart(content_type)
        assert fingerprint("POST", URL, multipart("B")[0], content_type) == fingerprint("POST", URL, *multipart("CCC"))

    def test_other_content_is_another_form(self) -> None:
        """Only the boundary is constant."""
        first = fingerprint("POST", URL, *multipart("B", "hello"))

        assert first != fingerprint("POST", URL, *multipart("B", "hullo"))

    @pytest.mark.parametrize("content_type", ["", "application/json", "multipart/form-data", "text/plain; boundary=B"])
    def test_what_is_no_form_is_taken_as_it_is(self, content_type: str) -> None:
        """No boundary, no constant."""
        assert not is_multipart(content_type)
        assert fingerprint("POST", URL, b"--B", content_type) != fingerprint("POST", URL, b"--C", content_type)

    @given(parts, parts)
    def test_different_requests_never_collide(self, first: Any, second: Any) -> None:
        """Each part has its length before it, so no byte can move from one into the next."""
        assume(first != second)
        (method, url, body, scope), (other_method, other_url, other_body, other_scope) = first, second

        assert fingerprint(method, url, body, "", scope) != fingerprint(
            other_method, other_url, other_body, "", other_scope
        )

    @given(parts)
    def test_the_same_request_has_the_same_fingerprint(self, request_parts: Any) -> None:
        """In every process."""
        method, url, body, scope = request_parts

        assert fingerprint(method, url, body, "", scope) == fingerprint(method, url, body, "", scope)
