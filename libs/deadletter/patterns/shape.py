"""The shape of a payload: which JSON paths it has and of what type, how it is encoded, how long it is.

Plain Python without Spark, which calls it for each payload, see :func:`deadletter.patterns.profile.facts`: whatever a
payload is, it raises no error. Nothing in it knows a queue: what is *wrong* with a shape is found by contrast with
healthy messages, in :mod:`deadletter.patterns.deviation`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from types import NoneType
from typing import Any

DEPTH = 6
"""Levels of nesting that are looked into."""
KEYS = 2_000
"""Keys of one object that are looked at, the first by name."""
WIDTH = 200
"""Elements of one array that are looked at."""
LONGEST_VALUE = 64
"""Characters of a string that can still be one word of a vocabulary."""
LONGEST_KEY = 256
"""Characters of a key that can still be a name: all longer ones are one path, :data:`LONG_KEY`."""
LONGEST_PAYLOAD = 1 << 20
"""Characters of a payload that are parsed; a longer one is told by its size alone."""
WHOLE = "$"
LONG_KEY = "<long>"
MORE = "followed by more"
"""The kind of a whole after which a payload goes on, beside its own: most readers of JSON take none of it."""
APART = "\u0001"
"""Stands between the parts of what is said of a payload; in a payload it counts as a digit."""
DIGITS = f"[0-9{APART}]+"
WORD = "(?<![0-9A-Za-z]){}(?![0-9A-Za-z])"
IDS = "|".join(
    [
        WORD.format("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
        WORD.format("[0-9A-HJKMNP-TV-Z]{26}"),
        WORD.format("(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}"),
        DIGITS,
    ]
)
"""What in a key is an id: UUIDs, ULIDs, hexadecimal words, digits."""
ADDRESS = r"[^@\s,;<>]+@[^@\s,;<>]+"
"""What is used as a key can be somebody's address; ``@attributes`` is none."""
LINE_END = "(?:\r\n|[\n\r\u0085\u2028\u2029])?\\Z"
"""The end of a string, or of its only line."""
NAMES = {dict: "object", list: "array", bool: "true or false", NoneType: "null"}
"""What values are that are neither strings nor numbers."""
TEXTS = (
    ("empty text", " *\\Z"),
    ("ISO time", "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"),
    ("date", "[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}(?![0-9.])"),
    ("number as text", "[+-]?[0-9]+(?:[.,][0-9]+)?" + LINE_END),
)
"""Strings that are more than text, by how they start."""
ENCODINGS = {
    "replacement characters": r"\ufffd|\\[uU][fF]{3}[dD]",
    "mojibake": r"[\u00c2\u00c3][\u0080-\u00bf]|\u00e2\u20ac|\\u00[cC][23]\\u00[89abAB]",
    "control characters": r"[\x00-\x08\x0b\x0c\x0e-\x1f]|\\u00[01]",
    "beyond ASCII": r"[^\x00-\x7f]|\\u0[1-9a-fA-F]|\\u00[8-9a-fA-F]|\\u[1-9a-fA-F]",
}
"""How characters can look, the worst first."""
BACKSLASH = "\\"
SPACE = " \t\n\r"
"""What JSON takes for white space."""
_DIGITS, _IDS, _ADDRESS = re.compile(DIGITS), re.compile(IDS), re.compile(ADDRESS, re.ASCII)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TEXTS = re.compile("|".join(f"({regex})" for _, regex in TEXTS))
_ENCODINGS = {name: re.compile(regex) for name, regex in ENCODINGS.items()}

Leaf = tuple[str, str, str | None]
"""Path, kind and value: a short string with its digits masked, or a whole number below 1000."""


def facts_of(payload: str | None) -> list[str]:
    """What is said of one payload, each fact once in the order in which it is met: its paths, their kinds and values,
    its encoding, and its bytes as a power of two. Of no payload is said what is said of an empty one.

    Facts are texts, as Spark compares these by their hashes, and structs each with each.

    >>> [fact.replace(APART, "|") for fact in facts_of("[7]")]
    ['path|$|', 'kind|$|array', 'path|$[]|', 'kind|$[]|number', 'value|$[]|7', 'kind|encoding|ASCII', 'kind|length|2']
    """
    text = payload or ""
    said = []
    for path, kind, value in leaves(text):
        about = f"{APART}{path}{APART}"
        said += ["path" + about, "kind" + about + kind]
        if value is not None:
            said.append("value" + about + value)
    length = (len(text.encode("utf-8", "replace")) + 1).bit_length() - 1
    said += [f"kind{APART}encoding{APART}{encoding(text)}", f"kind{APART}length{APART}{length}"]
    return list(dict.fromkeys(said))


def leaves(payload: str) -> list[Leaf]:
    """The paths of a JSON payload, level by level and sorted by key; ``$`` is the whole. What is in several elements of
    an array comes once for each. What is not JSON has the one path ``$`` whose kind says how, see :func:`not_json`. A
    dot or a backslash in a key has a backslash before it.

    >>> for leaf in leaves('{"id": 7, "to": {"mail": "a1@b.example"}}'):
    ...     print(*leaf)
    $ object None
    $.id number 7
    $.to object None
    $.to.mail text a#@b.example
    """
    try:
        whole, more = _parsed(payload)
    except (ValueError, RecursionError):
        return [(WHOLE, not_json(payload), None)]
    level = [(WHOLE, whole)]
    found: list[Leaf] = [(WHOLE, MORE, None)] if more else []
    for _ in range(DEPTH + 1):
        below: list[tuple[str, object]] = []
        for path, value in level:
            kind, word = _told(value)
            found.append((path, kind, word))
            if isinstance(value, (dict, list)):
                below += _children(path, value)
        level = below
    # the escape of one half of a character is JSON, but what it stands for is no text
    return [_as_text(leaf) for leaf in found] if _SURROGATE.search(payload) else found


def not_json(payload: str) -> str:
    """Say what does not parse: ``truncated``, ``broken``, ``plain text``, ``empty`` or ``huge``.

    >>> [not_json(payload) for payload in ('{"a": 1, "b', "{'a': 1}", "[1,]", "hello", " ")]
    ['truncated', 'broken', 'broken', 'plain text', 'empty']
    """
    text = payload.strip(" ")
    if not text:
        return "empty"
    if len(payload) > LONGEST_PAYLOAD:
        return "huge"
    if not text.startswith(("{", "[")):
        return "plain text"
    return "broken" if text.endswith("}" if text.startswith("{") else "]") else "truncated"


def encoding(payload: str) -> str:
    r"""How a payload's characters look, the worst first; ``\\u`` escapes count as what they stand for.

    >>> [encoding(payload) for payload in ("m\ufffdller", "m\u00c3\u00bcller", "a\x00b", "m\u00fcller", "mill")]
    ['replacement characters', 'mojibake', 'control characters', 'beyond ASCII', 'ASCII']
    """
    if payload.isascii() and payload.isprintable() and "\\u" not in payload.lower():
        return "ASCII"  # most are, and this is told faster than what the others are
    return next((name for name, regex in _ENCODINGS.items() if regex.search(payload)), "ASCII")


def _parsed(payload: str) -> tuple[object, bool]:
    """The JSON value that a payload starts with, and whether anything but white space comes after it.

    Raises ``ValueError`` where there is none, and ``RecursionError`` where it is too deep.
    """
    if len(payload) > LONGEST_PAYLOAD:
        raise ValueError("too long to be parsed")
    value, end = _JSON.raw_decode(payload, len(payload) - len(payload.lstrip(SPACE)))
    if not isinstance(value, (dict, list, str)) and payload[end : end + 1].strip(SPACE):
        raise ValueError("a word or a number that only starts a text")
    return value, bool(payload[end:].strip(SPACE))


def _object(members: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a key comes twice")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _children(path: str, value: dict[str, object] | list[object]) -> list[tuple[str, object]]:
    if isinstance(value, list):
        return [(f"{path}[]", element) for element in value[:WIDTH]]
    return [
        # longer keys are not kept: the paths of all that lies below, and what is remembered, would be as long
        (_path(path, key if len(key) <= LONGEST_KEY else LONG_KEY), value[key])
        for key in sorted(value)[:KEYS]
    ]


@lru_cache(maxsize=10_000)
def _path(parent: str, key: str) -> str:
    """The path of a key: one for all that differ in an id only, and nobody's address."""
    ids = _IDS.sub("#", key)
    name = _ADDRESS.sub("<email>", ids) if "@" in key else ids
    return f"{parent}.{name.replace(BACKSLASH, 2 * BACKSLASH).replace('.', BACKSLASH + '.')}"


def _told(value: Any) -> tuple[str, str | None]:
    """What a value is, in words, and how it reads if it is short."""
    if isinstance(value, str):
        known = _TEXTS.match(value)
        word = _DIGITS.sub("#", value) if len(value) <= LONGEST_VALUE else None
        return TEXTS[known.lastindex - 1][0] if known and known.lastindex else "text", word
    if type(value) in NAMES:
        return NAMES[type(value)], None
    word = str(value) if isinstance(value, int) and -1000 < value < 1000 else None
    return "negative number" if value < 0 else "number", word


def _as_text(leaf: Leaf) -> Leaf:
    """The leaf with ``?`` for halves of characters."""
    path, kind, value = leaf
    return _encodable(path), kind, value if value is None else _encodable(value)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
