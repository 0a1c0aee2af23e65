"""The shape of a payload: which JSON paths it has and of what type, how it is encoded, how long it is.

Native expressions only, and nothing in them knows a queue: what is *wrong* with a shape is found by
contrast with healthy messages, in :mod:`deadletter.patterns.deviation`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

DEPTH = 6
"""Levels of nesting that are looked into."""
WIDTH = 200
"""Keys of one object and elements of one array that are looked at."""
LONGEST_VALUE = 64
"""Characters of a string that can still be one word of a vocabulary."""
LONGEST_PAYLOAD = 1 << 20
"""Characters of a payload that are parsed; a longer one is told by its size alone."""
WHOLE = "$"
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


def leaves(payload: Column) -> Column:
    """The paths of a JSON payload, level by level: ``array<struct<path, kind, value>>``; ``$`` is the whole. What is in
    several elements of an array comes once for each.

    ``value`` is a short string with its digits masked, or a whole number below 1000; otherwise null.
    What is not JSON has the one path ``$`` whose kind says how, see :func:`not_json`.

    >>> df = spark.createDataFrame([('{"id": 7, "to": {"mail": "a1@b.example"}}',)], "payload STRING")
    >>> for leaf in df.select(leaves(F.col("payload"))).first()[0]:
    ...     print(*leaf)
    $ object None
    $.id number 7
    $.to object None
    $.to.mail text a#@b.example
    """
    root = F.try_parse_json(F.when(F.length(payload) <= LONGEST_PAYLOAD, payload))
    # an array of one: what is mentioned again inside a function of arrays would be parsed again
    found = F.transform(F.array(root), _leaves_of)[0]
    whole = F.struct(
        F.lit(WHOLE).alias("path"), not_json(payload).alias("kind"), F.lit(None).cast("string").alias("value")
    )
    return F.coalesce(found, F.array(whole))


def not_json(payload: Column) -> Column:
    """Say what does not parse: ``truncated``, ``broken``, ``plain text``, ``empty`` or ``huge``."""
    text = F.trim(payload)
    opened = text.rlike("^[{\\[]")
    closed = F.when(text.startswith("{"), text.endswith("}")).otherwise(text.endswith("]"))
    return (
        F.when(F.coalesce(text, F.lit("")) == "", "empty")
        .when(F.length(payload) > LONGEST_PAYLOAD, "huge")
        .when(opened & ~closed, "truncated")
        .when(opened, "broken")
        .otherwise("plain text")
    )


def encoding(payload: Column) -> Column:
    r"""How a payload's characters look, the worst first; ``\\u`` escapes count as what they stand for.

    >>> texts = [("m\ufffdller",), ("m\u00c3\u00bcller",), ("a\x00b",), ("m\u00fcller",), ("mill",)]
    >>> found = spark.createDataFrame(texts, "t STRING").select(encoding(F.col("t"))).collect()
    >>> [row[0] for row in found]
    ['replacement characters', 'mojibake', 'control characters', 'beyond ASCII', 'ASCII']
    """
    mojibake = r"[\u00c2\u00c3][\u0080-\u00bf]|\u00e2\u20ac|\\u00[cC][23]\\u00[89abAB]"
    return (
        F.when(payload.rlike(r"(?i)\ufffd|\\ufffd"), "replacement characters")
        .when(payload.rlike(mojibake), "mojibake")
        .when(payload.rlike(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|\\u00[01]"), "control characters")
        .when(payload.rlike(r"[^\x00-\x7f]|\\u0[1-9a-fA-F]|\\u00[8-9a-fA-F]|\\u[1-9a-fA-F]"), "beyond ASCII")
        .otherwise("ASCII")
    )


def size_class(payload: Column) -> Column:
    """The payload's bytes as a power of four: 3 is 64 to 255 bytes, 6 is 4,096 to 16,383."""
    return F.floor(F.log2(F.greatest(F.octet_length(payload), F.lit(1))) / 2).cast("int")


def shape(payload: Column) -> Column:
    """The shape as one canonical string: sorted paths with their kinds, encoding, size class.

    >>> df = spark.createDataFrame([('{"b": [1, 2], "a": null}',), ('{"a": 1, "b',)], "payload STRING")
    >>> [row[0] for row in df.select(shape(F.col("payload"))).collect()]
    ['$ object, $.a null, $.b array, $.b[] number; ASCII; 4^2 bytes', '$ truncated; ASCII; 4^1 bytes']
    """
    paths = F.transform(leaves(payload), lambda leaf: F.concat_ws(" ", leaf["path"], leaf["kind"]))
    size = F.concat(F.lit("4^"), size_class(payload).cast("string"), F.lit(" bytes"))
    return F.concat_ws("; ", F.array_join(F.array_sort(F.array_distinct(paths)), ", "), encoding(payload), size)


def _leaves_of(root: Column) -> Column:
    """The leaves of a variant; null for none."""
    start = F.array(_node(F.lit(WHOLE), root))
    nodes = F.aggregate(
        F.sequence(F.lit(1), F.lit(DEPTH)),
        F.transform(F.array(start), lambda at: F.struct(at.alias("edge"), at.alias("seen")))[0],
        _one_level_deeper,
        lambda found: found["seen"],
    )
    return F.when(root.isNotNull(), F.transform(F.transform(nodes, _read), _told))


def _node(path: Column, value: Column) -> Column:
    """A place in a payload: ``struct<path, v, schema>``. Functions of arrays are interpreted, and an expression that is
    mentioned again is computed again: so each step keeps what the next ones ask for more than once."""
    return F.struct(path.alias("path"), value.alias("v"), F.schema_of_variant(value).alias("schema"))


def _one_level_deeper(found: Column, _level: Column) -> Column:
    below = F.flatten(F.transform(found["edge"], _children))
    return F.struct(below.alias("edge"), F.concat(found["seen"], below).alias("seen"))


def _children(node: Column) -> Column:
    members = F.transform(
        F.slice(F.map_entries(F.try_variant_get(node["v"], "$", "map<string,variant>")), 1, WIDTH),
        lambda e: _node(F.concat(node["path"], F.lit("."), _key(e["key"])), e["value"]),
    )
    elements = F.transform(
        F.slice(F.try_variant_get(node["v"], "$", "array<variant>"), 1, WIDTH),
        lambda e: _node(F.concat(node["path"], F.lit("[]")), e),
    )
    return (
        F.when(node["schema"].startswith("OBJECT"), members)
        .when(node["schema"].startswith("ARRAY"), elements)
        .otherwise(F.array())
    )


def _key(key: Column) -> Column:
    """A key as paths have it: one path for all that differ in an id only, and nobody's address."""
    ids = F.regexp_replace(key, IDS, "#")
    return F.when(key.contains("@"), F.regexp_replace(ids, ADDRESS, "<email>")).otherwise(ids)


def _read(node: Column) -> Column:
    """A node with what it holds if that is one value: ``struct<path, schema, text, number>``."""
    one = ~(node["schema"].startswith("OBJECT") | node["schema"].startswith("ARRAY"))
    numeric = one & ~node["schema"].isin("STRING", "BOOLEAN", "VOID")
    return F.struct(
        node["path"].alias("path"),
        node["schema"].alias("schema"),
        F.when(one, F.try_variant_get(node["v"], "$", "string")).alias("text"),
        F.when(numeric, F.try_variant_get(node["v"], "$", "double")).alias("number"),
    )


def _told(read: Column) -> Column:
    return F.struct(read["path"].alias("path"), _kind(read).alias("kind"), _value(read).alias("value"))


def _kind(read: Column) -> Column:
    """What a value is, in words: ``object``, ``array``, ``null``, ``number``, ``ISO time``, ..."""
    schema, text = read["schema"], read["text"]
    text_kind = (
        F.when(F.trim(text) == "", "empty text")
        .when(text.rlike("^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"), "ISO time")
        .when(text.rlike("^[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}(?![0-9.])"), "date")
        .when(text.rlike("^[+-]?[0-9]+([.,][0-9]+)?$"), "number as text")
        .otherwise("text")
    )
    return (
        F.when(schema.isNull() | (schema == "VOID"), "null")
        .when(schema == "STRING", text_kind)
        .when(schema.startswith("OBJECT"), "object")
        .when(schema.startswith("ARRAY"), "array")
        .when(schema == "BOOLEAN", "true or false")
        .when(read["number"] < 0, "negative number")
        .otherwise("number")
    )


def _value(read: Column) -> Column:
    text = read["text"]
    word = F.when(F.length(text) <= LONGEST_VALUE, F.regexp_replace(text, DIGITS, "#"))
    small = F.when(F.abs(read["number"]) < 1000, text)
    return F.when(read["schema"] == "STRING", word).when(read["schema"] == "BIGINT", small)
