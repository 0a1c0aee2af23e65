"""What may set a dead letter apart from the other messages of its queue."""

from deadletter.gold.traits import with_traits
from deadletter.tables import DEAD_LETTERS, DELIVERY

PAYLOAD = '{"host": "web-1"}'


def test_who_posted_a_message_that_nobody_received_is_compared_with_nobody(spark):
    """Its queue's consumers and producers are those of delivered messages."""
    rows = [("received", [(None, "e", None, "c-1", None, None)]), ("expired", []), ("unseen", None)]
    dead = spark.createDataFrame(rows, f"message_id STRING, deliveries array<{DELIVERY}>")
    given = {"payload": f"'{PAYLOAD}'", "message_id": "message_id"}
    others = [column for column in DEAD_LETTERS.columns if column.name != "traits"]
    values = [f"CAST({given.get(column.name, 'NULL')} AS {column.type}) AS {column.name}" for column in others]
    dead = dead.selectExpr(*values, "deliveries", "'p' AS producer")
    found = {row["message_id"]: [tuple(trait) for trait in row["traits"]] for row in with_traits(dead).collect()}
    host = ("host", "web-1")
    assert found == {"received": [("consumer", "c-1"), ("producer", "p"), host], "expired": [host], "unseen": [host]}
