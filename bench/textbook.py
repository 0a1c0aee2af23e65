"""The textbook: the PySpark and Delta medallion of the tutorials.

Bronze streams the files into a Delta table; silver streams bronze, parses with ``from_json`` and a schema, drops
duplicates and merges on the key in ``foreachBatch``; gold is recomputed from silver by SQL. Sets of claims make it
right under duplicates and late events, which many tutorials are not.
"""

import os

import side
from delta import configure_spark_with_delta_pip
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = """
    captured_at TIMESTAMP, method STRING, path STRING, query STRUCT<limit: BIGINT, ids: STRING>, project_id STRING,
    client_id STRING, status INT,
    request_body STRUCT<messages: ARRAY<STRUCT<body: STRING, ttl: BIGINT>>, ttl: BIGINT, grace: BIGINT,
        _max_claim_count: INT, _dead_letter_queue: STRING>,
    response_body STRUCT<resources: ARRAY<STRING>,
        messages: ARRAY<STRUCT<id: STRING, href: STRING, ttl: BIGINT, age: BIGINT, body: STRING>>>
"""
CLAIM = "STRUCT<claim_id: STRING, claimed_at: TIMESTAMP, ttl: BIGINT>"
PATIENT = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:GCLockerRetryAllocationCount=100"
"""Java 17 gives up an allocation after two tries while native code reads the heap: so ended one run of scenario A."""
SILVER = {
    "messages": f"queue STRING, message_id STRING, posted_at TIMESTAMP, body STRING, claims ARRAY<{CLAIM}>, "
    "settled_at TIMESTAMP",
    "attempts": "event_id STRING, queue STRING, made_at TIMESTAMP, `limit` BIGINT, granted INT",
    "queues": "queue STRING, max_claim_count INT, dead_letter_queue STRING",
}
GOLD = {
    "dead_letters": """
        WITH exhausted AS (
            SELECT m.queue, m.message_id, m.posted_at, m.body, q.dead_letter_queue, size(m.claims) AS claim_count,
                array_max(transform(m.claims,
                    c -> date_trunc('SECOND', c.claimed_at) + make_dt_interval(0, 0, 0, c.ttl))) AS free_at
            FROM messages m JOIN queues q ON m.queue = q.queue
            WHERE m.settled_at IS NULL AND q.dead_letter_queue IS NOT NULL AND size(m.claims) >= q.max_claim_count
        )
        SELECT e.queue, e.message_id, first(e.dead_letter_queue) AS dead_letter_queue, first(e.posted_at) AS posted_at,
            first(e.body) AS body, first(e.claim_count) AS claim_count, min(a.made_at) AS died_at
        FROM exhausted e JOIN attempts a ON a.queue = e.queue AND a.made_at >= e.free_at AND a.`limit` > a.granted
        GROUP BY e.queue, e.message_id
    """,
    "queue_health": """
        SELECT queue, date_trunc('HOUR', made_at) AS hour, count_if(kind = 'posted') AS posted,
            count_if(kind = 'claimed') AS claimed, count_if(kind = 'settled') AS settled,
            count_if(kind = 'dead') AS dead
        FROM (
            SELECT queue, posted_at AS made_at, 'posted' AS kind FROM messages WHERE posted_at IS NOT NULL
            UNION ALL SELECT queue, c.claimed_at, 'claimed' FROM messages LATERAL VIEW explode(claims) AS c
            UNION ALL SELECT queue, settled_at, 'settled' FROM messages WHERE settled_at IS NOT NULL
            UNION ALL SELECT queue, died_at, 'dead' FROM dead_letters
        ) GROUP BY ALL
    """,
}


def start():
    builder = (
        SparkSession.builder.appName("textbook")
        .master("local[*]")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", os.environ.get("DEADLETTER_DRIVER_MEMORY", "4g"))
        .config("spark.driver.extraJavaOptions", PATIENT)
        .config("spark.sql.shuffle.partitions", "32")  # the tutorials' advice: a small multiple of the cores
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    return configure_spark_with_delta_pip(builder).getOrCreate()


def bring_up(spark, landing, work):
    for table, schema in SILVER.items():
        spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{work}/silver/{table}` ({schema}) USING DELTA")
    steps = {}
    steps["bronze"], _ = side.timed(bronze, spark, landing, work)
    steps["silver"], _ = side.timed(silver, spark, work)
    steps["gold"], _ = side.timed(gold, spark, work)
    return steps


def bronze(spark, landing, work):
    lines = spark.readStream.text(f"{landing}/zaqar").select(
        F.sha2("value", 256).alias("event_id"),
        "value",
        F.col("_metadata.file_path").alias("source_file"),
        F.current_timestamp().alias("ingested_at"),
    )
    _write_stream(lines.writeStream.format("delta"), f"{work}/checkpoints/bronze").start(
        f"{work}/bronze/events"
    ).awaitTermination()


def silver(spark, work):
    events = spark.readStream.format("delta").load(f"{work}/bronze/events")
    _write_stream(events.writeStream, f"{work}/checkpoints/silver").foreachBatch(
        lambda batch, _: upsert(batch, work)
    ).start().awaitTermination()


def _write_stream(writer, checkpoint):
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)


def upsert(batch, work):
    events = (
        batch.dropDuplicates(["event_id"])
        .select("event_id", F.from_json("value", EVENT).alias("e"))
        .select("event_id", "e.*")
        .withColumn("queue", F.get(F.split("path", "/"), F.lit(3)))
        .withColumn("part", F.get(F.split("path", "/"), F.lit(4)))
        .persist()
    )
    merge(
        f"{work}/silver/messages",
        message_changes(events),
        ["queue", "message_id"],
        {
            "posted_at": "least(t.posted_at, s.posted_at)",
            "body": "coalesce(t.body, s.body)",
            "claims": "array_union(t.claims, s.claims)",
            "settled_at": "least(t.settled_at, s.settled_at)",
        },
    )
    merge(f"{work}/silver/attempts", attempts(events), ["event_id"], {})
    merge(f"{work}/silver/queues", queues(events), ["queue"], None)
    events.unpersist()


def merge(path, changes, keys, updates):
    """MERGE on the key; ``updates`` of matched rows: an expression a column, ``None`` for all of them."""
    target = DeltaTable.forPath(changes.sparkSession, path).alias("t")
    on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    merging = target.merge(changes.alias("s"), on).whenNotMatchedInsertAll()
    if updates is None:
        merging = merging.whenMatchedUpdateAll()
    elif updates:
        merging = merging.whenMatchedUpdate(set=updates)
    merging.execute()


def message_changes(events):
    """One row a message of the batch."""
    none = {"posted_at": "timestamp", "body": "string", "claim": CLAIM, "settled_at": "timestamp"}
    empty = {name: F.lit(None).cast(kind) for name, kind in none.items()}
    pairs = F.arrays_zip("request_body.messages", "response_body.resources")
    posted = (
        events.where("method = 'POST' AND part = 'messages' AND status = 201")
        .select(
            "queue",
            "captured_at",
            F.explode(pairs).alias("m"),
        )
        .withColumns(empty | {"message_id": F.element_at(F.split("m.resources", "/"), -1)})
        .withColumns({"posted_at": F.col("captured_at"), "body": F.col("m.messages.body")})
    )
    claim = F.struct(
        F.regexp_extract("m.href", "claim_id=(.*)", 1).alias("claim_id"),
        F.col("captured_at").alias("claimed_at"),
        F.col("request_body.ttl").alias("ttl"),
    )
    claimed = (
        events.where("method = 'POST' AND part = 'claims' AND status = 201")
        .select("queue", "captured_at", "request_body", F.explode("response_body.messages").alias("m"))
        .withColumns(empty | {"message_id": F.col("m.id"), "claim": claim})
    )
    settled = (
        events.where("method = 'DELETE' AND part = 'messages' AND status = 204")
        .select("queue", "captured_at", F.explode(F.split("query.ids", ",")).alias("message_id"))
        .withColumns(empty | {"settled_at": F.col("captured_at")})
    )
    columns = ["queue", "message_id", *none]
    facts = posted.select(columns).unionByName(claimed.select(columns)).unionByName(settled.select(columns))
    return facts.groupBy("queue", "message_id").agg(
        F.min("posted_at").alias("posted_at"),
        F.max("body").alias("body"),
        F.collect_set("claim").alias("claims"),
        F.min("settled_at").alias("settled_at"),
    )


def attempts(events):
    return events.where("method = 'POST' AND part = 'claims' AND status IN (201, 204)").select(
        "event_id",
        "queue",
        F.col("captured_at").alias("made_at"),
        F.coalesce("query.limit", F.lit(10)).cast("bigint").alias("limit"),
        F.coalesce(F.size("response_body.messages"), F.lit(0)).alias("granted"),
    )


def queues(events):
    declared = events.where("method = 'PUT' AND part IS NULL AND status = 201")
    return declared.groupBy("queue").agg(
        F.max_by("request_body._max_claim_count", "captured_at").alias("max_claim_count"),
        F.max_by("request_body._dead_letter_queue", "captured_at").alias("dead_letter_queue"),
    )


def gold(spark, work):
    for table in SILVER:
        spark.read.format("delta").load(f"{work}/silver/{table}").createOrReplaceTempView(table)
    for table, query in GOLD.items():
        path = f"{work}/gold/{table}"
        spark.sql(query).write.format("delta").mode("overwrite").save(path)
        spark.read.format("delta").load(path).createOrReplaceTempView(table)


def dead_letters(spark, work, out):
    dead = spark.read.format("delta").load(f"{work}/gold/dead_letters")
    dead.selectExpr("queue", "message_id", "unix_micros(died_at) AS died_us").toPandas().to_csv(out, index=False)


def sums(spark, work):
    messages = spark.read.format("delta").load(f"{work}/silver/messages")
    counted = ("count(posted_at) AS messages", "sum(size(claims)) AS grants", "count(settled_at) AS settled")
    return messages.selectExpr(*counted).first().asDict()


if __name__ == "__main__":
    side.main(start, bring_up, dead_letters, sums)
