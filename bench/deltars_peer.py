"""delta-rs with Polars: lazy frames over the raw files into Delta tables, no Spark.

Bronze and the silver facts are appended in chunks of files, which bounds the memory; the state of the messages is
then one lazy aggregation over the facts.
"""

import os
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "2")

import polars as pl
import side

MESSAGE = pl.Struct({"body": pl.String, "ttl": pl.Int64})
GRANTED = pl.Struct({"id": pl.String, "href": pl.String, "ttl": pl.Int64, "age": pl.Int64, "body": pl.String})
REQUEST = pl.Struct(
    {
        "messages": pl.List(MESSAGE),
        "ttl": pl.Int64,
        "grace": pl.Int64,
        "_max_claim_count": pl.Int64,
        "_dead_letter_queue": pl.String,
    }
)
SCHEMA = {
    "captured_at": pl.String,
    "method": pl.String,
    "path": pl.String,
    "query": pl.Struct({"limit": pl.Int64, "ids": pl.String}),
    "project_id": pl.String,
    "client_id": pl.String,
    "request_body": REQUEST,
    "status": pl.Int64,
    "response_body": pl.Struct({"resources": pl.List(pl.String), "messages": pl.List(GRANTED)}),
}
CHUNK = 512 << 20
"""Bytes of raw files that are read at once."""
KEY = ["queue", "message_id"]


def start():
    return pl


def bring_up(_, landing, work):
    steps = {}
    steps["bronze"], _ = side.timed(bronze, landing, work)
    steps["silver"], _ = side.timed(silver, work)
    steps["gold"], _ = side.timed(gold, work)
    return steps


def chunks(landing):
    files, size = [], 0
    for path in sorted(Path(landing, "zaqar").glob("*.jsonl")):
        files.append(path)
        size += path.stat().st_size
        if size >= CHUNK:
            yield files
            files, size = [], 0
    if files:
        yield files


def bronze(landing, work):
    """Append the events, and the facts in them, chunk by chunk."""
    for files in chunks(landing):
        events = read(files).collect()
        events.write_delta(f"{work}/bronze/events", mode="append")
        for table, facts in facts_of(events.lazy()).items():
            facts.collect().write_delta(f"{work}/silver/{table}", mode="append")


def read(files):
    parts = pl.col("path").str.split("/")
    return pl.scan_ndjson(files, schema=SCHEMA).with_columns(
        pl.col("captured_at").str.to_datetime("%Y-%m-%dT%H:%M:%S%.6f%:z", time_zone="UTC"),
        queue=parts.list.get(3),
        part=parts.list.get(4, null_on_oob=True),
    )


def field(*names):
    column = pl.col(names[0])
    for name in names[1:]:
        column = column.struct.field(name)
    return column


def facts_of(events):
    """What the exchanges of a chunk say, a lazy frame for each kind of fact."""
    method, part, status = pl.col("method"), pl.col("part"), pl.col("status")
    claims = events.filter((method == "POST") & (part == "claims") & status.is_in([201, 204]))
    posts = events.filter((method == "POST") & (part == "messages") & (status == 201))
    deletes = events.filter((method == "DELETE") & (part == "messages") & (status == 204))
    puts = events.filter((method == "PUT") & (status == 201))
    granted = (
        claims.select("queue", "captured_at", ttl=field("request_body", "ttl"), m=field("response_body", "messages"))
        .drop_nulls("m")
        .explode("m")
    )
    ends = pl.col("captured_at").dt.truncate("1s") + pl.duration(seconds=pl.col("ttl"))
    return {
        "posts": posts.select(
            "queue",
            posted_at="captured_at",
            message=field("request_body", "messages"),
            message_id=field("response_body", "resources"),
        )
        .explode("message", "message_id")
        .select(
            "queue",
            "posted_at",
            body=field("message", "body"),
            message_id=pl.col("message_id").str.split("/").list.last(),
        ),
        "grants": granted.select(
            "queue",
            message_id=field("m", "id"),
            claim_id=field("m", "href").str.split("claim_id=").list.last(),
            claimed_at="captured_at",
            free_at=ends,
        ),
        "settlements": deletes.select(
            "queue", settled_at="captured_at", message_id=field("query", "ids").str.split(",")
        ).explode("message_id"),
        "attempts": claims.select(
            "queue",
            "client_id",
            made_at="captured_at",
            limit=field("query", "limit").fill_null(10),
            granted=field("response_body", "messages").list.len().fill_null(0),
        ),
        "queues": puts.select(
            "queue",
            "captured_at",
            max_claim_count=field("request_body", "_max_claim_count"),
            dead_letter_queue=field("request_body", "_dead_letter_queue"),
        ),
    }


def scan(work, table):
    return pl.scan_delta(f"{work}/silver/{table}")


def silver(work):
    """The state of each message: an aggregation over the distinct facts."""
    posts = scan(work, "posts").group_by(KEY).agg(pl.min("posted_at"), pl.first("body"))
    claims = scan(work, "grants").group_by(KEY).agg(pl.col("claim_id").n_unique().alias("claims"), pl.max("free_at"))
    settled = scan(work, "settlements").group_by(KEY).agg(pl.min("settled_at"))
    state = posts.join(claims, on=KEY, how="full", coalesce=True).join(settled, on=KEY, how="full", coalesce=True)
    state.collect(engine="streaming").write_delta(f"{work}/silver/message_state", mode="overwrite")


def gold(work):
    dead = judged(work).collect(engine="streaming")
    dead.write_delta(f"{work}/gold/dead_letters", mode="overwrite")
    health(work, dead).collect(engine="streaming").write_delta(f"{work}/gold/queue_health", mode="overwrite")


def judged(work):
    """The messages at their limit that an attempt with free places met after their last claim."""
    queues = scan(work, "queues").sort("captured_at").unique("queue", keep="last").drop_nulls("dead_letter_queue")
    free = scan(work, "attempts").filter(pl.col("limit") > pl.col("granted")).unique().select("queue", "made_at")
    exhausted = (
        scan(work, "message_state")
        .filter(pl.col("settled_at").is_null())
        .join(queues.drop("captured_at"), on="queue")
        .filter(pl.col("claims") >= pl.col("max_claim_count"))
    )
    return (
        exhausted.sort("free_at")
        .join_asof(free.sort("made_at"), left_on="free_at", right_on="made_at", by="queue", strategy="forward")
        .drop_nulls("made_at")
        .rename({"made_at": "died_at"})
    )


def health(work, dead):
    """What happened in each queue in each hour."""
    moments = {
        "posted": scan(work, "posts").unique(KEY).select("queue", at="posted_at"),
        "claimed": scan(work, "grants").unique([*KEY, "claim_id"]).select("queue", at="claimed_at"),
        "settled": scan(work, "settlements").unique(KEY).select("queue", at="settled_at"),
        "dead": dead.lazy().select("queue", at="died_at"),
    }
    counted = [
        frame.group_by("queue", hour=pl.col("at").dt.truncate("1h"))
        .agg(pl.len().alias("n"))
        .with_columns(kind=pl.lit(kind))
        for kind, frame in moments.items()
    ]
    counts = {kind: pl.col("n").filter(pl.col("kind") == kind).sum() for kind in moments}
    return pl.concat(counted).group_by("queue", "hour").agg(**counts)


def dead_letters(_, work, out):
    dead = pl.read_delta(f"{work}/gold/dead_letters")
    dead.select("queue", "message_id", died_us=pl.col("died_at").dt.epoch("us")).write_csv(out)


def sums(_, work):
    counted = scan(work, "message_state").select(
        messages=pl.col("posted_at").count(), grants=pl.col("claims").sum(), settled=pl.col("settled_at").count()
    )
    return counted.collect().row(0, named=True)


if __name__ == "__main__":
    side.main(start, bring_up, dead_letters, sums)
