"""A Zaqar line reads the same whether its bodies are objects, as most taps write them, or texts that hold these."""

import gzip
import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from deadletter.parsing import zaqar
from deadletter.parsing.envelope import with_captured_at
from deadletter.parsing.facts import Facts
from deadletter.silver.reconcile import balance
from deadletter.spark.staging import held

CAPTURES = Path(__file__).parents[1] / "captures" / "zaqar"
NESTED = [field for field, _ in zaqar.SHAPES.values()]
UNUSUAL = [
    {"method": "DELETE", "path": "/v2/queues/q/messages", "query": {"pop": 2}, "status": 200}
    | {"response_body": {"messages": [{"id": "a", "ttl": 60, "age": 1.5, "body": {"n": 1}}]}},
    {"method": "DELETE", "path": "/v2/queues/q/messages", "query": {"ids": ["a", "b"]}, "status": 204},
    {"method": "PATCH", "path": "/v2/queues/q/claims/c", "request_body": {"ttl": "60", "grace": 5}, "status": 204},
    {"method": "PATCH", "path": "/v2/queues/q/claims/c", "request_body": {"ttl": {"a": 1}}, "status": 204},
    {"method": "PUT", "path": "/v2/queues/messages", "request_body": {"_max_claim_count": 3}, "status": 201},
    {"method": "PATCH", "path": "/v2/queues/claims", "response_body": {"_max_claim_count": 3}, "status": 200},
    {"method": "PUT", "path": "/v2/flavors/f", "request_body": {"pool_list": ["a", "b"]}, "status": 201},
    {"method": "POST", "path": "/v2/queues/q/purge", "request_body": {"resource_types": ["messages"]}, "status": 204},
    {"method": "POST", "path": "/v2/queues/q/messages", "request_body": {"messages": [1, None]}, "status": 201},
]
"""Exchanges that the captures have none of."""


def exchanges():
    """Every tenth captured exchange, and the unusual ones."""
    files = [gzip.decompress(file.read_bytes()).decode() for file in sorted(CAPTURES.glob("*.gz"))]
    lines = [line for text in files for line in text.splitlines()]
    captured = [json.loads(line) for line in lines[::10] if line.startswith("{")]
    known = dict.fromkeys(zaqar.FIELDS) | {"captured_at": "2026-11-20T12:00:00Z", "project_id": "p"}
    return captured + [known | unusual for unusual in UNUSUAL]


def as_texts(exchange):
    """The same exchange with texts in place of objects."""
    return exchange | {name: json.dumps(exchange[name]) for name in NESTED if exchange.get(name) is not None}


@pytest.fixture(scope="module")
def parsed(spark):
    """All exchanges both ways: ``event_id`` says which exchange it is, ``source_file`` which way."""
    rows = [
        (str(n), "zaqar", json.dumps(change(exchange)), way)
        for n, exchange in enumerate(exchanges())
        for way, change in (("objects", dict), ("texts", as_texts))
    ]
    bronze = spark.createDataFrame(rows, "event_id string, system string, raw string, source_file string")
    bronze = bronze.withColumn("ingested_at", F.lit("2026-11-21").cast("timestamp"))
    return held(zaqar.parse(with_captured_at(bronze)).drop("raw"))


def test_the_same_from_texts(parsed):
    told = F.to_json(F.struct(*[name for name in parsed.columns if name not in ("event_id", "source_file")]))
    pairs = parsed.groupBy("event_id").agg(F.collect_set(told).alias("told"), F.first("kind").alias("kind")).collect()
    assert len(pairs) > 500
    assert {row["kind"] for row in pairs} >= set(zaqar.KINDS) - {"delete_queue"}
    assert [row["told"] for row in pairs if len(row["told"]) > 1] == []


def test_an_event_without_a_fact_is_told(parsed):
    """What a parser would lose if it gave no facts of claims."""
    told = zaqar.facts(parsed.where("source_file = 'objects' AND kind = 'release' OR kind IS NULL"))
    whole, lost = balance(told).first(), balance(Facts(**vars(told) | {"claims": told.claims.where("false")})).first()
    assert (whole["lost"], whole["first"]) == (0, None)
    assert lost["events"] == whole["events"] > lost["lost"] > 0
    assert lost["first"] == min(row["event_id"] for row in parsed.where("kind = 'release'").collect())
