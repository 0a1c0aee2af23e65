"""DuckDB: SQL over the raw files into its own tables, two threads. It writes no Delta table."""

import os

import duckdb
import side

READ = """
    CREATE TABLE events AS
    SELECT *, split_part(path, '/', 4) AS queue, split_part(path, '/', 5) AS part
    FROM read_ndjson('{landing}/zaqar/*.jsonl', filename = true, columns = {{
        captured_at: 'TIMESTAMP', method: 'VARCHAR', path: 'VARCHAR', query: 'STRUCT("limit" BIGINT, ids VARCHAR)',
        project_id: 'VARCHAR', client_id: 'VARCHAR', status: 'INTEGER',
        request_body: 'STRUCT(messages STRUCT(body VARCHAR, ttl BIGINT)[], ttl BIGINT, grace BIGINT,
            _max_claim_count BIGINT, _dead_letter_queue VARCHAR)',
        response_body: 'STRUCT(resources VARCHAR[],
            messages STRUCT(id VARCHAR, href VARCHAR, ttl BIGINT, age BIGINT, body VARCHAR)[])'
    }})
"""
TABLES = {
    "queues": """
        SELECT queue, max_by(request_body._max_claim_count, captured_at) AS max_claim_count,
            max_by(request_body._dead_letter_queue, captured_at) AS dead_letter_queue
        FROM events WHERE method = 'PUT' AND status = 201 GROUP BY queue
    """,
    "attempts": """
        SELECT DISTINCT queue, captured_at AS made_at, client_id, coalesce(query."limit", 10) AS "limit",
            coalesce(len(response_body.messages), 0) AS granted
        FROM events WHERE method = 'POST' AND part = 'claims' AND status IN (201, 204)
    """,
    "posts": """
        SELECT queue, split_part(resource, '/', 6) AS message_id, min(captured_at) AS posted_at,
            any_value(message.body) AS body
        FROM (
            SELECT queue, captured_at, unnest(request_body.messages) AS message,
                unnest(response_body.resources) AS resource
            FROM events WHERE method = 'POST' AND part = 'messages' AND status = 201
        ) GROUP BY ALL
    """,
    "grants": """
        SELECT DISTINCT queue, message.id AS message_id, split_part(message.href, 'claim_id=', 2) AS claim_id,
            captured_at AS claimed_at, date_trunc('second', captured_at) + to_seconds(ttl) AS free_at
        FROM (
            SELECT queue, captured_at, request_body.ttl AS ttl, unnest(response_body.messages) AS message
            FROM events WHERE method = 'POST' AND part = 'claims' AND status = 201
        )
    """,
    "settlements": """
        SELECT queue, message_id, min(captured_at) AS settled_at
        FROM (
            SELECT queue, captured_at, unnest(string_split(query.ids, ',')) AS message_id
            FROM events WHERE method = 'DELETE' AND part = 'messages' AND status = 204
        ) GROUP BY ALL
    """,
    "messages": """
        SELECT queue, message_id, posted_at, body, coalesce(claim_count, 0) AS claim_count, free_at, settled_at
        FROM posts
        FULL JOIN (
            SELECT queue, message_id, count(*) AS claim_count, max(free_at) AS free_at FROM grants GROUP BY ALL
        ) USING (queue, message_id)
        FULL JOIN settlements USING (queue, message_id)
    """,
    "dead_letters": """
        SELECT m.queue, m.message_id, any_value(q.dead_letter_queue) AS dead_letter_queue,
            any_value(m.posted_at) AS posted_at, any_value(m.body) AS body, any_value(m.claim_count) AS claim_count,
            min(a.made_at) AS died_at
        FROM messages m
        JOIN queues q ON m.queue = q.queue AND m.claim_count >= q.max_claim_count AND q.dead_letter_queue IS NOT NULL
        JOIN attempts a ON a.queue = m.queue AND a.made_at >= m.free_at AND a."limit" > a.granted
        WHERE m.settled_at IS NULL
        GROUP BY m.queue, m.message_id
    """,
    "queue_health": """
        SELECT queue, date_trunc('hour', made_at) AS hour, count(*) FILTER (kind = 'posted') AS posted,
            count(*) FILTER (kind = 'claimed') AS claimed, count(*) FILTER (kind = 'settled') AS settled,
            count(*) FILTER (kind = 'dead') AS dead
        FROM (
            SELECT queue, posted_at AS made_at, 'posted' AS kind FROM posts
            UNION ALL SELECT queue, claimed_at, 'claimed' FROM grants
            UNION ALL SELECT queue, settled_at, 'settled' FROM settlements
            UNION ALL SELECT queue, died_at, 'dead' FROM dead_letters
        ) GROUP BY ALL
    """,
}


def start():
    return duckdb


def bring_up(_, landing, work):
    steps = {}
    with duckdb.connect(f"{work}/dead.duckdb", config={"threads": 2, "temp_directory": f"{work}/spill"}) as db:
        if memory := os.environ.get("DEADLETTER_BENCH_DUCKDB_MEMORY"):
            db.execute(f"SET memory_limit = '{memory}'")
        db.execute("SET preserve_insertion_order = false")
        db.execute("SET TimeZone = 'UTC'")
        steps["events"], _ = side.timed(db.execute, READ.format(landing=landing))
        for table, query in TABLES.items():
            steps[table], _ = side.timed(db.execute, f"CREATE TABLE {table} AS {query}")
    return steps


def dead_letters(_, work, out):
    with duckdb.connect(f"{work}/dead.duckdb", read_only=True) as db:
        db.execute(
            f"COPY (SELECT queue, message_id, epoch_us(died_at) AS died_us FROM dead_letters) TO '{out}' (HEADER)"
        )


def sums(_, work):
    with duckdb.connect(f"{work}/dead.duckdb", read_only=True) as db:
        query = "SELECT count(posted_at), sum(claim_count)::BIGINT, count(settled_at) FROM messages"
        return dict(zip(("messages", "grants", "settled"), db.execute(query).fetchone(), strict=True))


if __name__ == "__main__":
    side.main(start, bring_up, dead_letters, sums)
