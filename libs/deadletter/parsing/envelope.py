"""What all raw events share: one JSON object a line, with ``captured_at``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

EARLIEST = "2000-01-01"
"""An event from before message brokers had clocks worth trusting is a broken clock."""

MOST_SECONDS = 100 * 365 * 86400
"""No TTL, delay or age of a message is longer; beyond, the sum of a time and a duration has no date."""
LATEST_SECONDS = 253402300799
"""The end of year 9999, in seconds since 1970."""


LONGEST_TEXT = 100_000_000
"""Characters of a line's longest text. Left to itself a reader of JSON takes twenty million and calls more no JSON."""

LONG = {"maxStringLen": str(LONGEST_TEXT)}
"""The option of ``from_json`` for that."""


def field_text(name: str, line: str = "raw") -> Column:
    """A field of a line, nested values as JSON text; null where the line has none, or is no JSON object.

    ``get_json_object`` is quick, but it stops at what the parsers take: a number that is none, half of a character that
    takes two, texts above twenty million characters.

    >>> lines = ['{"a": 1}', '{"a": {"b": NaN}}', '{"a": "x", "b": -Infinity}', '{"b": 1}', "a"]
    >>> df = spark.createDataFrame([(line,) for line in lines], "raw string")
    >>> [row["a"] for row in df.select(field_text("a").alias("a")).collect()]
    ['1', '{"b":"NaN"}', 'x', None, None]
    """
    return F.coalesce(F.get_json_object(line, f"$.{name}"), parsed_text(name, line))


def parsed_text(name: str, line: str = "raw") -> Column:
    """The same as the parsers take it: the last of two fields of one name, where :func:`field_text` is the first.

    >>> df = spark.createDataFrame([('{"a": 1, "a": 2}',)], "raw string")
    >>> df.select(field_text("a"), parsed_text("a")).first()[:]
    ('1', '2')
    """
    return F.from_json(line, f"`{name}` string", LONG)[name]


def with_captured_at(lines: DataFrame, line: str = "raw") -> DataFrame:
    """Add the ``captured_at`` that bronze has of raw lines, null where it does not read."""
    told = lines.withColumn("told_at", field_text("captured_at", line))  # sought in the line once
    return told.withColumn("captured_at", F.expr(clock("told_at"))).drop("told_at")


def clock(text: str) -> str:
    """SQL for an ISO 8601 time of the years 1 to 9999; null where ``text`` is none.

    A time without a day does not read: Spark would take today's. To the minute, as Java writes a whole one, and with a
    comma Spark reads none by itself.

    >>> texts = ["2026-11-20T20:53:01.5Z", "2026-11-20T20:53Z", "2026-11-20T21:53:01,5+01:00", "20:53"]
    >>> df = spark.createDataFrame([(text,) for text in texts], "text string")
    >>> df.selectExpr(f"CAST({clock('text')} AS string) AS time").show()
    +--------------------+
    |                time|
    +--------------------+
    |2026-11-20 20:53:...|
    | 2026-11-20 20:53:00|
    |2026-11-20 20:53:...|
    |                NULL|
    +--------------------+
    """
    day = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[T ][0-9]"
    to_second = f"regexp_replace({text}, '^([^T ]+[T ][0-9]{{1,2}}:[0-9]{{2}})(?=$|[Z+-])', '$1:00')"
    with_dot = f"regexp_replace({to_second}, '(:[0-9]{{2}}),', '$1.')"
    read = f"coalesce(try_cast({text} AS timestamp), try_cast({with_dot} AS timestamp))"
    return f"CASE WHEN {text} RLIKE '{day}' THEN {read} END"


def epoch(text: str, per_second: int = 1) -> str:
    """SQL for the time that is so many seconds (or parts of one) since 1970; null outside the years 2000 to 9999."""
    number = f"try_cast({text} AS bigint)"
    low, high = 946684800 * per_second, LATEST_SECONDS * per_second
    return (
        f"CASE WHEN {number} BETWEEN {low} AND {high} THEN timestamp_micros({number} * {1_000_000 // per_second}L) END"
    )


def whole(text: str) -> str:
    """SQL for a whole number, also where it is written as a decimal; null where ``text`` is none.

    Tables that lack a value somewhere hold a column's whole numbers as decimals, and so write them: ``3.0``, which a
    reader of JSON may make ``1.7829E12`` of.

    >>> texts = [("3",), ("3.0",), ("1.7829E12",), ("-1.0",), ("3.5",), ("1.0E30",), ("NaN",), ("three",), (None,)]
    >>> df = spark.createDataFrame(texts, "text string")
    >>> [row["number"] for row in df.selectExpr(whole("text") + " AS number").collect()]
    [3, 3, 1782900000000, -1, None, None, None, None, None]
    """
    number = f"try_cast({text} AS double)"
    # beyond, a double does not tell one whole number from the next
    exact = f"{number} BETWEEN -9007199254740992 AND 9007199254740992 AND {number} = floor({number})"
    return f"coalesce(try_cast({text} AS bigint), CASE WHEN {exact} THEN CAST({number} AS bigint) END)"


def seconds(text: str) -> str:
    """SQL for a whole number of seconds from 0 to :data:`MOST_SECONDS`; null where ``text`` is none."""
    number = f"try_cast({text} AS bigint)"
    return f"CASE WHEN {number} BETWEEN 0 AND {MOST_SECONDS} THEN {number} END"


_BEGIN = "ltrim(' \t\r\n', raw)"
"""The line from its first character that JSON does not pass over."""

ENVELOPE_RULES = {
    "not_utf8: the line has bytes that are no UTF-8": "NOT utf8",
    "not_an_object: the line is a JSON array; write one event a line": f"utf8 AND startswith({_BEGIN}, '[')",
    "not_json: the line is no JSON object; a writer may have been cut off": (
        f"utf8 AND NOT startswith({_BEGIN}, '[') AND NOT readable"
    ),
    "no_captured_at: captured_at is missing or not an ISO 8601 time with an offset": "readable AND time IS NULL",
    "captured_at_too_early: captured_at is before 2000": f"readable AND time < TIMESTAMP'{EARLIEST} 00:00:00'",
    "captured_at_in_future: captured_at is more than a day after the line arrived": (
        "readable AND time > ingested_at + INTERVAL 1 DAY"
    ),
    "captured_at_twice: the line has two captured_at, and they differ": "readable AND NOT (captured_at <=> time)",
}
"""The rules every line must keep, whatever its broker; ``utf8`` are all its bytes, ``readable`` is one JSON object in
valid UTF-8."""


def read_envelope(bronze: DataFrame, system: str, fields: dict[str, str]) -> DataFrame:
    """Parse the raw lines of one system.

    Returns the bronze columns plus ``utf8`` (all bytes are), ``readable`` (the line is one JSON object), ``time``
    (``captured_at``, null where it does not read) and one string column for each of ``fields``, which maps a
    column's name to the JSON field's path.
    Nested values come as JSON text.
    """
    top = {path.split(".")[0]: "string" for path in fields.values()}
    lines = bronze.where(F.col("system") == system).withColumn("read", _read("raw", top))
    lines = lines.withColumn("event", F.col("read.event"))
    columns = {name: F.expr(_field(path)) for name, path in fields.items()}
    return _with_envelope(lines, f"event IS NOT NULL AND {_WHOLE}", "event.captured_at", columns)


def read_shaped_envelope(
    bronze: DataFrame, system: str, fields: Iterable[str], shapes: Mapping[str, tuple[str, str]], with_texts: str
) -> DataFrame:
    """Parse the raw lines of one system whose nested ``fields`` nearly always have the same shape.

    Returns what :func:`read_envelope` does and a column for each of ``shapes``, which maps its name to the field that
    it is read from and its type. Such a field's text is null but where ``with_texts`` is true (SQL on ``line``, which
    has every field) or the line is odd: a field does not hold its shape. These lines alone are read a second time, as
    texts, because reading what is in a text again takes as long as reading the line.
    """
    texts = dict.fromkeys(fields, "string")
    types = dict(shapes.values())
    lines = bronze.where(F.col("system") == system).withColumn("read", _read("raw", texts | types))
    lines = lines.withColumns({"line": F.col("read.event"), "odd": F.expr(f"read.event IS NULL OR NOT {_WHOLE}")})
    lines = lines.withColumn("read", F.when(F.expr(f"odd OR coalesce({with_texts}, false)"), _read("raw", texts)))
    lines = lines.withColumn("event", F.col("read.event"))
    columns = {name: F.col(f"event.{name}") if name in types else F.expr(_unless_odd(name)) for name in texts}
    options = f"map('maxStringLen', '{LONGEST_TEXT}')"
    columns |= {
        name: F.expr(f"CASE WHEN odd THEN from_json(event.`{field}`, '{kind}', {options}) ELSE line.`{field}` END")
        for name, (field, kind) in shapes.items()
    }
    whole = f"NOT odd OR event IS NOT NULL AND {_WHOLE}"
    return _with_envelope(lines, whole, _unless_odd("captured_at"), columns).drop("line", "odd")


_WHOLE = "(read._corrupt IS NULL AND read.`end` IS NOT NULL)"


def _read(text: str, types: Mapping[str, str]) -> Column:
    """A JSON object's fields in ``event``, and ``_corrupt`` where it is none or one of them has another type.

    A reader of JSON stops at the object's end. It is read as a field of another one, so that what comes after it on the
    line, such as a second event whose line feed is missing, is a fault.
    """
    named = ", ".join(f"`{name}` {kind}" for name, kind in sorted({"captured_at": "string", **types}.items()))
    schema = f"event struct<{named}>, `end` boolean, _corrupt string"
    inside = F.concat(F.lit('{"event":'), text, F.lit(',"end":true}'))
    return F.from_json(inside, schema, {"columnNameOfCorruptRecord": "_corrupt", "mode": "PERMISSIVE"} | LONG)


def _unless_odd(name: str) -> str:
    return f"CASE WHEN odd THEN event.`{name}` ELSE line.`{name}` END"


def _with_envelope(lines: DataFrame, whole: str, captured_at: str, columns: dict[str, Column]) -> DataFrame:
    """Add what every line tells; ``whole`` is SQL for what was read without an error."""
    lines = lines.withColumn("utf8", F.is_valid_utf8("raw"))
    readable = F.expr(f"utf8 AND startswith({_BEGIN}, '{{') AND ({whole})")
    told = {"readable": readable, "time": F.expr(clock(captured_at))} | columns
    return lines.withColumns(told).drop("event", "read")


def _field(path: str) -> str:
    first, _, rest = path.partition(".")
    return f"get_json_object(event.`{first}`, '$.{rest}')" if rest else f"event.`{first}`"
