"""What is said of one payload, however odd it is."""

import json

import pytest

from deadletter.patterns.shape import APART, DEPTH, KEYS, LONGEST_PAYLOAD, WIDTH, encoding, facts_of, leaves

KINDS = {
    "": "empty",
    "  ": "empty",
    "hello": "plain text",
    "True": "plain text",
    "01": "plain text",
    "2026-11-20": "plain text",
    "NaN": "plain text",
    '\ufeff{"a": 1}': "plain text",
    '{"a": 1, "b': "truncated",
    "[": "truncated",
    "{'a': 1}": "broken",
    "[1,]": "broken",
    '{"a": NaN}': "broken",
    "[-Infinity]": "broken",
    '{"a": 1, "a": 2}': "broken",
    '[{"a": 1, "\\u0061": 2}]': "broken",
    '{"a": "x\ny"}': "broken",
    '{"a": "\\x41"}': "broken",
    f"[{'9' * 5000}]": "broken",
    '{"a":' * 100_000 + "1" + "}" * 100_000: "broken",
    "[" * 300_000 + "]" * 300_000: "broken",
    f'"{"x" * LONGEST_PAYLOAD}"': "huge",
    "null": "null",
    "true": "true or false",
    ' \t\r\n{"a": 1}\n': "object",
    '{"a": 1} and more': "object",
    '{"a": 1}{"a": 2}': "object",
    '"Hello," she said': "text",
    "[1]]": "array",
    "12 orders": "number",
    "-1e400": "negative number",
    "-0": "number",
    '""': "empty text",
    '"  "': "empty text",
    '"2026-11-20T13:38:00Z"': "ISO time",
    '"2026-11-20 13:38"': "ISO time",
    '"1/8/2026 0:25"': "date",
    '"10.0.0.1"': "text",
    '"-4,50"': "number as text",
    '"12\\r\\n"': "number as text",
    '"1e5"': "text",
    '"\\ud800"': "text",
}
"""Payloads, and what their whole is."""
FOLLOWED = ('{"a": 1} and more', '{"a": 1}{"a": 2}', "[1]]", "12 orders", '"Hello," she said')
"""Those that go on after it."""
VALUES = {
    "7": "7",
    "-999": "-999",
    "1000": None,
    "1.0": None,
    "1e2": None,
    "9" * 60: None,
    "true": None,
    "null": None,
    '""': "",
    '"desk 17 of 300"': "desk # of #",
    f'"{"x" * 64}"': "x" * 64,
    f'"{"x" * 65}"': None,
    '"a\\ud800b\\ud83d\\ude00"': "a?b\U0001f600",
    json.dumps("\U0001f600" * 64): "\U0001f600" * 64,
    '"\\u0001"': "#",
}
"""Payloads of one value, and how it reads."""


@pytest.mark.parametrize("payload", KINDS, ids=lambda payload: payload[:20])
def test_what_the_whole_is(payload):
    told = [kind for path, kind, _ in leaves(payload) if path == "$"]
    assert told == [*(["followed by more"] if payload in FOLLOWED else []), KINDS[payload]]


@pytest.mark.parametrize("payload", VALUES, ids=lambda payload: payload[:20])
def test_how_a_value_reads(payload):
    assert leaves(payload)[0][2] == VALUES[payload]


def test_no_payload_raises_an_error():
    """Also none that is cut anywhere; and all that is said is text in three parts."""
    whole = json.dumps({"a\x01b": [None, True, -1.5e300, {"\ud800": "m\u00fc\ufffd\ude00"}], "ada@example.org": {}})
    for payload in [None, *KINDS, *VALUES, *(whole[:end] for end in range(len(whole) + 1)), *map(chr, range(300))]:
        said = facts_of(payload)
        assert len(said) == len(set(said))
        assert {fact.encode().count(APART.encode()) for fact in said} == {2}
    assert facts_of(None) == facts_of("")


def paths(payload):
    return [path for path, _, _ in leaves(payload)]


def test_keys_that_differ_in_ids_or_name_somebody_are_one_path():
    keys = ("order7", "a-5f3a9c0e1b", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "ada@example.org", "@attributes", "deadbeef")
    told = ["order#", "a-#", "#", "<email>", "@attributes", "deadbeef"]
    assert [paths(json.dumps({key: 1}))[1] for key in keys] == [f"$.{key}" for key in told]


def test_a_dot_in_a_key_is_none_between_keys():
    assert paths('{"customer.email": {"at.home": 1}, "http": {"method": 1}}') == [
        *("$", "$.customer\\.email", "$.http", "$.customer\\.email.at\\.home", "$.http.method"),
    ]


def test_keys_too_long_for_a_name_are_one_path():
    """Otherwise all below would carry it, and an address in it would be sought at each of its letters."""
    payload = json.dumps({"a" * 500_000 + " @": {"b": 1}, "x" * 256: 2})
    assert paths(payload) == ["$", "$.<long>", "$." + "x" * 256, "$.<long>.b"]


def test_as_much_is_looked_at_as_is_told_the_first_by_name():
    wide = {f"{number:04}": 1 for number in reversed(range(KEYS + 50))} | {"": 1}
    assert len(paths(json.dumps(wide))) == 1 + KEYS
    assert len(paths(json.dumps(list(wide)))) == 1 + WIDTH
    assert paths(json.dumps(wide))[1:3] == ["$.", "$.#"]
    assert paths("[" * 500 + "]" * 500) == ["$" + "[]" * depth for depth in range(DEPTH + 1)]


def test_escapes_look_like_what_they_stand_for():
    letters = {"\ufffd": "replacement characters", "\u00fc": "beyond ASCII", "\x1f": "control characters", "A": "ASCII"}
    for letter, name in letters.items():
        assert encoding(f"\\u{ord(letter):04x}") == encoding(letter) == name
    assert encoding("\\u00C3\\u00BC") == "mojibake"
    assert encoding("a\tb\r\n\x7f") == "ASCII"
