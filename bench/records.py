"""Rows made for the tables that a scenario begins with, without raw events behind them."""

QUEUES = 1000


def selected(rows, table, values):
    """Rows of a table from SQL by column; the other columns are null."""
    return rows.selectExpr(*[f"CAST({values.get(c.name, 'NULL')} AS {c.type}) AS {c.name}" for c in table.columns])


def rabbitmq_message(posted):
    """SQL by column for the message ``id`` of one of 1,000 RabbitMQ queues; ``posted`` is SQL for its time."""
    return {
        "system": "'rabbitmq'",
        "tenant": "'/'",
        "queue": queue(f"id % {QUEUES}"),
        "subscription": "''",
        "message_id": "sha2(CAST(id AS string), 256)",
        "created_day": f"CAST({posted} AS date)",
        "posted": f"named_struct('time', {posted}, 'event_id', sha2(concat('e', id), 256), 'position', 0, "
        "'ttl', NULL, 'delay', NULL, 'producer', '')",
        "seen": posted,
    }


def queue(number):
    """SQL for the name of a queue."""
    return f"concat('q', lpad(CAST({number} AS string), 4, '0'))"
