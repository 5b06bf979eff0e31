"""`Dialect` and its parts: what they accept, what they refuse, and how a key gets into a request."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekey import dialects
from samekey._model import Verdict
from samekey.dialects import (
    GENERIC,
    Dialect,
    Header,
    JsonField,
    KeyRule,
    RepeatabilityHeaders,
    ReplayMarker,
    RetryHint,
    Rule,
)

PRESETS = [getattr(dialects, name) for name in dialects.__all__ if name.isupper()]
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class TestKeyRule:
    """How keys are made and checked."""

    @pytest.mark.parametrize(("form", "version"), [("uuid7", "7"), ("uuid4", "4")])
    def test_makes_uuids(self, form: Any, version: str) -> None:
        """Canonical lower-case UUIDs of the asked version, each another."""
        keys = [KeyRule(form=form).make() for _ in range(3)]

        assert len(set(keys)) == 3
        assert {match[1] for key in keys if (match := UUID.fullmatch(key))} == {version}

    def test_makes_hex(self) -> None:
        """32 hex digits, for APIs with short limits."""
        assert re.fullmatch("[0-9a-f]{32}", KeyRule(form="hex", max_length=32).make())

    def test_makes_what_a_callable_says(self) -> None:
        """A caller's own maker is asked each time, and its keys are checked."""
        assert KeyRule(form=lambda: "k-1", max_length=3).make() == "k-1"
        with pytest.raises(ValueError, match="4 bytes"):
            KeyRule(form=lambda: "k-10", max_length=3).make()
        with pytest.raises(TypeError, match="int"):
            KeyRule(form=lambda: 7).make()  # type: ignore[arg-type,return-value]

    @pytest.mark.parametrize("key", ["k", "a b", 'with "quotes"', "~" * 255])
    def test_accepts(self, key: str) -> None:
        """Printable ASCII of the right length."""
        KeyRule().check(key)

    @pytest.mark.parametrize(
        ("key", "message"),
        [
            ("", "empty"),
            ("   ", "blank"),
            (" secret", "space"),
            ("secret ", "space"),
            ("secret\r\nX: y", "position 6 of 12"),
            ("secret\x7f", "position 6"),
            ("secreté", "position 6"),
            ("s" * 256, "256 bytes"),
        ],
    )
    def test_refuses(self, key: str, message: str) -> None:
        """A key that cannot travel is refused by length and position, and never shown."""
        with pytest.raises(ValueError, match=message) as caught:
            KeyRule().check(key)

        assert len(key) < 3 or key.strip() not in str(caught.value) or not key.strip()

    def test_refuses_by_its_own_rules(self) -> None:
        """Too short, and not of the pattern; both without the key in the message."""
        rule = KeyRule(min_length=4, pattern="[a-f0-9-]+")
        with pytest.raises(ValueError, match=r"3 bytes; allowed: 4\.\.255"):
            rule.check("abc")
        with pytest.raises(ValueError, match="does not match") as caught:
            rule.check("abc-xyz")
        assert "xyz" not in str(caught.value)

    def test_refuses_what_is_no_string(self) -> None:
        """Bytes are not text."""
        with pytest.raises(TypeError, match="bytes"):
            KeyRule().check(b"k")  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("settings", "error", "message"),
        [
            ({"min_length": 0}, ValueError, "min_length"),
            ({"min_length": 9, "max_length": 8}, ValueError, "max_length"),
            ({"max_length": 8.0}, TypeError, "whole number"),
            ({"max_length": True}, TypeError, "whole number"),
            ({"max_length": 32}, ValueError, "'hex' has 32 bytes"),
            ({"form": "hex", "pattern": "[A-F]+"}, ValueError, "another form"),
            ({"form": "uuid1"}, ValueError, "'uuid7', 'uuid4', 'hex'"),
            ({"pattern": "("}, ValueError, "KeyRule.pattern is not a valid regular expression"),
            ({"pattern": 7}, TypeError, "KeyRule.pattern"),
        ],
    )
    def test_impossible_rules(self, settings: Any, error: type[Exception], message: str) -> None:
        """A rule that no key of its form can keep is refused when it is made."""
        with pytest.raises(error, match=re.escape(message)):
            KeyRule(**settings)


class TestHeader:
    """The key in a header."""

    def test_bare(self) -> None:
        """By default the key goes out as it is, quotes included."""
        header = Header()
        assert (header.name, header.encode('a"b'), header.decode(' "a" ')) == ("Idempotency-Key", 'a"b', '"a"')

    @given(
        st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1).filter(
            lambda key: key == key.strip()
        )
    )
    def test_quoted_round_trip(self, key: str) -> None:
        """Every key survives the quotes of RFC 8941."""
        header = Header(quoted=True)
        value = header.encode(key)

        assert re.fullmatch(r'"(?:[^"\\]|\\["\\])*"', value)
        assert header.decode(value) == key

    def test_quoted_takes_a_bare_value(self) -> None:
        """A caller who wrote no quotes has chosen that key."""
        assert Header(quoted=True).decode("abc") == "abc"
        assert Header(quoted=True).decode(' "a\\"c" ') == 'a"c'
        assert Header(quoted=True).encode("abc") == '"abc"'

    @pytest.mark.parametrize("value", ['"', '"a', '"a"b"', '"a";x=1', '"a\\b"', '"é"'])
    def test_quoted_refuses_broken_strings(self, value: str) -> None:
        """Half a quoted string is neither form."""
        with pytest.raises(ValueError, match="well-formed"):
            Header(quoted=True).decode(value)

    @pytest.mark.parametrize("key", ["é", "a\n"])
    def test_quoted_refuses_what_does_not_fit(self, key: str) -> None:
        """A structured field has no escape for such characters."""
        with pytest.raises(ValueError, match="printable ASCII"):
            Header(quoted=True).encode(key)

    @pytest.mark.parametrize("name", ["", "Idempotency Key", "X:", "Authorization", "cookie", "Content-Length"])
    def test_bad_names(self, name: str) -> None:
        """Not a header name, or one with another meaning."""
        with pytest.raises(ValueError, match=r"Header\.name"):
            Header(name=name)
        with pytest.raises(TypeError, match=r"Header\.name"):
            Header(name=b"X-Key")  # type: ignore[arg-type]


def test_repeatability_headers() -> None:
    """The key in one header, the time of the first send as an HTTP date in another."""
    pair = RepeatabilityHeaders()

    assert (pair.name, pair.date_name) == ("Repeatability-Request-ID", "Repeatability-First-Sent")
    assert pair.decode(f" {pair.encode('k')} ") == "k"
    assert pair.date(784111777.9) == "Sun, 06 Nov 1994 08:49:37 GMT"


names = st.sampled_from(["a", "b", "key", "ä", 'q"', "\\", ""])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
paths = st.lists(names.filter(bool), min_size=1, max_size=4).map(".".join)
spaces = st.text(st.sampled_from(" \n\r\t"), max_size=3)


class TestJsonField:
    """The key in the body."""

    @given(st.dictionaries(names, values, max_size=4), paths, st.sampled_from([None, 0, 2]), st.booleans(), spaces)
    def test_inserts_and_changes_nothing_else(
        self, document: dict[str, Any], path: str, indent: int | None, ascii_only: bool, space: str
    ) -> None:
        """The key is found at its path, the rest is equal, and without the added bytes the body is the caller's."""
        parts = path.split(".")
        parent: Any = document
        for part in parts[:-1]:
            parent = parent.get(part, {}) if isinstance(parent, dict) else None
        field = JsonField(path)
        body = (space + json.dumps(document, indent=indent, ensure_ascii=ascii_only) + space).encode()
        if not isinstance(parent, dict):
            with pytest.raises(TypeError, match="must be an object"):
                field.insert(body, "k-1")
            return
        if parts[-1] in parent:
            return
        assert field.find(body) is None

        keyed = field.insert(body, 'k-"1"')

        expected = json.loads(body)
        inner = expected
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = 'k-"1"'
        assert json.loads(keyed) == expected
        assert field.find(keyed) == 'k-"1"'
        assert field.insert(keyed, 'k-"1"') == keyed
        start = next(index for index, (old, new) in enumerate(zip(body + b"\0", keyed, strict=False)) if old != new)
        added = len(keyed) - len(body)
        # A member may begin like the text it pushes aside; some cut of this length gives the caller's bytes.
        assert any(keyed[:cut] + keyed[cut + added :] == body for cut in range(start + 1))

    @pytest.mark.parametrize(
        ("path", "body", "expected"),
        [
            ("key", b"{}", b'{"key":"k"}'),
            ("key", b" { } ", b' {"key":"k" } '),
            ("key", b'{"n": 1.0e2 , "s":"\\u00e9"}', b'{"key":"k","n": 1.0e2 , "s":"\\u00e9"}'),
            ("h.key", b'{"a":[{"h":{}}],"h":{"x":1}}', b'{"a":[{"h":{}}],"h":{"key":"k","x":1}}'),
            ("a.a.a", b'{"b":1}', b'{"a":{"a":{"a":"k"}},"b":1}'),
            ("h.key", b'{"\\u0068":{}}', b'{"\\u0068":{"key":"k"}}'),
            ("key", '{"ä":"}"}'.encode(), '{"key":"k","ä":"}"}'.encode()),
        ],
    )
    def test_examples(self, path: str, body: bytes, expected: bytes) -> None:
        """Numbers, escapes and spaces stay as they were written."""
        assert JsonField(path).insert(body, "k") == expected

    def test_finds_the_callers_key(self) -> None:
        """A body that has the field carries the caller's key."""
        assert JsonField("h.key").find(b'{"h": {"key": "mine"}}') == "mine"
        assert JsonField("h.key").find(b'{"h": {}}') is None
        assert JsonField("key").insert(b'{"key": "mine"}', "mine") == b'{"key": "mine"}'
        with pytest.raises(ValueError, match="another key"):
            JsonField("key").insert(b'{"key": "mine"}', "other")

    @pytest.mark.parametrize(
        ("body", "error", "message"),
        [
            (b"", ValueError, "not a JSON document"),
            (b"amount=1", ValueError, "not a JSON document"),
            (b'{"a":1} x', ValueError, "not a JSON document"),
            (b"\xff{}", ValueError, "not a JSON document"),
            (b"\xef\xbb\xbf{}", ValueError, "not a JSON document"),
            (b'{"a":' * 100_000, ValueError, "not a JSON document"),
            (b"[]", TypeError, "the JSON body must be an object to hold the key, not an array"),
            (b"null", TypeError, "not null"),
            (b"7", TypeError, "not a number"),
            (b'{"h": true}', TypeError, "'h' in the JSON body must be an object to hold the key, not a boolean"),
            (b'{"h": "x"}', TypeError, "not a string"),
            (b'{"h": {"key": 7.5}}', TypeError, "'h.key' in the JSON body must be a string, not a number"),
            (b'{"h": {"key": null}}', TypeError, "not null"),
            (b'{"h": {"key": {}}}', TypeError, "not an object"),
            (b'{"h": {}, "h": {}}', ValueError, "'h' occurs twice"),
            (b'{"h": {"key": "a", "key": "b"}}', ValueError, "'key' occurs twice"),
        ],
    )
    def test_bodies_that_cannot_carry_a_key(self, body: bytes, error: type[Exception], message: str) -> None:
        """Clear errors, for reading and for writing, without a byte of the body."""
        for use in (JsonField("h.key").find, lambda body: JsonField("h.key").insert(body, "k")):
            with pytest.raises(error, match=re.escape(message)) as caught:
                use(body)
            assert caught.value.__cause__ is None

    @pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b"])
    def test_bad_paths(self, path: str) -> None:
        """Every part of a path has a name."""
        with pytest.raises(ValueError, match="empty part"):
            JsonField(path)
        with pytest.raises(TypeError, match=r"JsonField\.path"):
            JsonField(None)  # type: ignore[arg-type]


class TestParts:
    """Rules, markers and hints refuse what cannot be meant."""

    @pytest.mark.parametrize(
        ("settings", "error", "message"),
        [
            ({}, ValueError, "without a condition"),
            ({"status": 401}, ValueError, "cannot be 401"),
            ({"status": [409, 302]}, ValueError, "cannot be 302"),
            ({"status": []}, ValueError, "empty"),
            ({"status": ["409"]}, TypeError, "status code"),
            ({"code": "("}, ValueError, "Rule.code"),
            ({"code": 704}, TypeError, "Rule.code"),
            ({"text": "["}, ValueError, "Rule.text"),
            ({"header": ("X Y", "a")}, ValueError, "Rule.header"),
            ({"header": ("X", "(")}, ValueError, "Rule.header"),
            ({"header": "X"}, TypeError, "pair"),
            ({"header": ("X", "a", "b")}, TypeError, "pair"),
            ({"verdict": "nonsense", "status": 409}, ValueError, "must be a Verdict"),
            ({"verdict": Verdict.REDIRECT, "status": 409}, ValueError, "cannot be 'redirect'"),
        ],
    )
    def test_impossible_rules(self, settings: Any, error: type[Exception], message: str) -> None:
        """A rule that could never fit, or would always, is refused."""
        with pytest.raises(error, match=re.escape(message)):
            Rule(**{"verdict": Verdict.MISMATCH, **settings})

    def test_rule_takes_a_verdict_by_name(self) -> None:
        """Verdicts are strings, and one may write them so."""
        assert Rule("mismatch", status=409).verdict is Verdict.MISMATCH  # type: ignore[arg-type]
        assert Rule(Verdict.MISMATCH, status=(409, 422)) == Rule(Verdict.MISMATCH, status=[422, 409])

    def test_marker_and_hint(self) -> None:
        """Names are header names, kinds are known."""
        assert ReplayMarker("X-Replay").header == "x-replay"
        with pytest.raises(ValueError, match=r"ReplayMarker\.kind"):
            ReplayMarker("X-Replay", "yes")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"ReplayMarker\.header"):
            ReplayMarker("X Replay")
        with pytest.raises(ValueError, match=r"RetryHint\.header"):
            RetryHint("")
        with pytest.raises(TypeError, match=r"RetryHint\.absent"):
            RetryHint("X-Retry", absent="no")  # type: ignore[arg-type]


class TestDialect:
    """The whole."""

    def test_defaults(self) -> None:
        """An API of which only the usual header is known."""
        dialect = Dialect()

        assert dialect.carrier == Header()
        assert dialect.methods == {"POST", "PATCH"}
        assert (dialect.retention, dialect.margin, dialect.usable_for) == (None, 300.0, None)
        assert (dialect.stores, dialect.min_wait) == (None, 0.0)
        assert dialect.never_stored == {401, 429}
        assert {dialect.believe_done, dialect.inspect_2xx, dialect.reexecutes_failed} == {False}

    def test_generic(self) -> None:
        """24 hours less 5 minutes, UUIDv7, the plain header."""
        assert (GENERIC.retention, GENERIC.margin, GENERIC.usable_for) == (86_400.0, 300.0, 86_100.0)
        assert (GENERIC.carrier, GENERIC.key) == (Header(), KeyRule())

    def test_is_a_value(self) -> None:
        """Equal settings are equal and hash alike; nothing can be changed afterwards."""
        bare = {409: Verdict.IN_PROGRESS}
        dialect = Dialect(bare_status=bare, methods=["post"])  # type: ignore[arg-type]
        same = replace(dialect)

        assert (dialect, hash(dialect)) == (same, hash(same))
        bare.clear()
        assert dialect.bare_status == {409: Verdict.IN_PROGRESS}
        assert dialect.methods == {"POST"}
        with pytest.raises(FrozenInstanceError):
            dialect.name = "x"  # type: ignore[misc]
        with pytest.raises(TypeError):
            dialect.bare_status[410] = Verdict.OK  # type: ignore[index]

    @pytest.mark.parametrize("dialect", PRESETS, ids=lambda preset: preset.name)
    def test_travels(self, dialect: Dialect) -> None:
        """Settings are copied, and sent to worker processes."""
        assert pickle.loads(pickle.dumps(dialect)) == copy.deepcopy(dialect) == dialect

    def test_times(self) -> None:
        """Seconds or a timedelta; for ever is infinite."""
        assert Dialect(retention=timedelta(hours=1)).usable_for == 3300.0
        assert Dialect(retention=math.inf).usable_for == math.inf

    @pytest.mark.parametrize(
        ("settings", "error", "message"),
        [
            ({"retention": 300}, ValueError, "set a smaller margin"),
            ({"retention": -1}, ValueError, "Dialect.retention"),
            ({"retention": math.nan}, ValueError, "Dialect.retention"),
            ({"retention": "1h"}, TypeError, "number of seconds"),
            ({"margin": math.inf}, ValueError, "Dialect.margin"),
            ({"margin": None}, TypeError, "Dialect.margin"),
            ({"min_wait": True}, TypeError, "Dialect.min_wait"),
            ({"min_wait": -0.1}, ValueError, "Dialect.min_wait"),
            ({"name": 7}, TypeError, "Dialect.name"),
            ({"carrier": "Idempotency-Key"}, TypeError, "Dialect.carrier"),
            ({"key": "uuid7"}, TypeError, "Dialect.key must be KeyRule"),
            ({"inspect_2xx": 1}, TypeError, "Dialect.inspect_2xx"),
            ({"detects_mismatch": "no"}, TypeError, "Dialect.detects_mismatch"),
            ({"methods": "POST"}, TypeError, "such as a tuple"),
            ({"methods": 7}, TypeError, "such as a tuple"),
            ({"methods": {"get"}}, ValueError, "GET never carries a key"),
            ({"methods": {"PO ST"}}, ValueError, "Dialect.methods"),
            ({"scope_headers": ("Authorization",)}, ValueError, "credential"),
            ({"scope_headers": ("cookie",)}, ValueError, "credential"),
            ({"scope_headers": ("X Y",)}, ValueError, "Dialect.scope_headers"),
            ({"rules": ({"status": 409},)}, TypeError, "Rule only"),
            ({"rules": (Rule(Verdict.IN_PROGRESS, status=200),)}, ValueError, "inspect_2xx=True"),
            ({"replay": ("Idempotent-Replayed",)}, TypeError, "ReplayMarker only"),
            ({"hints": (1,)}, TypeError, "RetryHint only"),
            ({"bare_status": [409]}, TypeError, "Dialect.bare_status"),
            ({"bare_status": {401: Verdict.REFUSED}}, ValueError, "cannot be 401"),
            ({"bare_status": {202: Verdict.IN_PROGRESS}}, ValueError, "write a Rule"),
            ({"bare_status": {409: Verdict.MOVED}}, ValueError, "cannot be 'moved'"),
            ({"stores": {"3xx"}}, ValueError, "'2xx', '4xx' and '5xx'"),
            ({"stores": "4xx"}, TypeError, "such as a tuple"),
            ({"never_stored": {"401"}}, TypeError, "int only"),
            ({"done_resource": ("a..b",)}, ValueError, "empty part"),
            ({"body_delay": ""}, ValueError, "empty part"),
            ({"body_delay": 3}, TypeError, "Dialect.body_delay"),
        ],
    )
    def test_impossible_dialects(self, settings: Any, error: type[Exception], message: str) -> None:
        """A setting that cannot be meant is refused where it is made."""
        with pytest.raises(error, match=re.escape(message)):
            Dialect(**settings)

    def test_202_needs_no_inspection(self) -> None:
        """A 202 is always read, so a rule for it is never in vain."""
        Dialect(rules=(Rule(Verdict.IN_PROGRESS, status=202, text="queued"),))
        Dialect(rules=(Rule(Verdict.IN_PROGRESS, status=200, code="x"),), inspect_2xx=True)

    @pytest.mark.parametrize(
        ("dialect", "settling", "doubtful"),
        [
            (Dialect(), {402, 406, 409, 410, 412, 418, 423, 424}, {400, 401, 403, 404, 422, 429, 451, 200, 302, 500}),
            (Dialect(stores=frozenset({"2xx", "5xx"})), {402}, {400, 404, 422, 500}),
            (Dialect(stores=frozenset({"4xx"})), {400, 402, 403, 404, 422}, {401, 429, 399, 500}),
            (Dialect(stores=frozenset({"4xx"}), never_stored=frozenset({400})), {401, 402, 429}, {400}),
            (dialects.STRIPE, {402, 404, 409}, {400, 401, 403, 429, 500}),
        ],
    )
    def test_settles(self, dialect: Dialect, settling: set[int], doubtful: set[int]) -> None:
        """An answer ends the doubt only if it was made behind the lookup of the key."""
        assert {status for status in settling | doubtful if dialect.settles(status)} == settling


class TestPresets:
    """The presets as a whole; what each reads is in `test_vectors.py`."""

    @pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
    def test_keys_fit(self, preset: Dialect) -> None:
        """Every preset makes keys that it accepts."""
        preset.key.check(preset.key.make())

    def test_names_are_unique(self) -> None:
        """A name in a log tells one preset."""
        assert len({preset.name for preset in PRESETS}) == len(PRESETS) == 19

    def test_unknown_name(self) -> None:
        """A preset that does not exist is an ordinary missing attribute."""
        with pytest.raises(AttributeError, match="KLARNA"):
            dialects.KLARNA  # noqa: B018

    @pytest.mark.parametrize(
        ("name", "usable"),
        [
            ("PAYPAL", 10_500),
            ("AZURE_REPEATABILITY", 240),
            ("INCREASE", math.inf),
            ("SQUARE", None),
            ("ADYEN", 2_678_100),
        ],
    )
    def test_retention(self, name: str, usable: float | None) -> None:
        """How long a key may be sent: documented, or no limit."""
        assert getattr(dialects, name).usable_for == usable
