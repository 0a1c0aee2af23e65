"""Scenario E: a policy sets a delivery limit for 1,000 classic queues; what lies in them is judged.

    python bench/new_limit.py WORK MESSAGES

The messages are there already, one in a hundred delivered more often than the new limit, and each was requeued by
its consumer, who wrote it down. Counted are the merge of the policy, the judging of every message, and the dead
letters in gold. Their payloads are not sought: the raw events of so many messages are scenario A's.
"""

import json
import sys
import time
from dataclasses import replace

from records import QUEUES, queue, rabbitmq_message, selected

from deadletter import tables
from deadletter.gold.dead_letters import all_deaths
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import REDIS
from deadletter.snapshot import facts_at
from deadletter.spark.session import get_spark, tune
from deadletter.times import from_micros

LIMIT, TIMES = 2, 4
BEGIN, CHANGE = 1_792_000_000, 1_794_000_000
ATTRIBUTES = {"name": "limit", "pattern": "^q", "priority": 0, "apply-to": "queues", "settings": ["delivery-limit"]}


def at(seconds):
    return f"timestamp_seconds({seconds})"


def message_state(spark, messages):
    """Messages in the queues, a week of them: delivered once or twice, one in a hundred four times."""
    posted = f"{BEGIN} + id % 604800"
    times = f"sequence(1, CASE WHEN id % 100 = 0 THEN {TIMES} ELSE 1 + CAST(id % 2 AS int) END)"
    values = rabbitmq_message(at(posted)) | {
        "deliveries": f"transform({times}, n -> named_struct('time', {at(f'{posted} + 60 * n')}, 'event_id', "
        "concat('d', n), 'claim_id', NULL, 'consumer', 'c', 'broker_count', NULL, 'redelivered', n > 1))",
        "failures": f"transform({times}, n -> named_struct('time', {at(f'{posted} + 60 * n + 1')}, 'event_id', "
        "concat('f', n), 'consumer', 'c', 'error', NULL))",
        "deaths": "array()",
    }
    return selected(spark.range(0, messages, 1, 8), tables.MESSAGE_STATE, values)


def policies(rows, **values):
    """Rows of ``silver.queue_policies``, everything else null."""
    common = {"system": "'rabbitmq'", "tenant": "'/'", "queue": "'*'", "subscription": "''", "attributes": "'{}'"}
    return selected(rows, tables.QUEUE_POLICIES, common | values)


def prepare(lake, messages):
    """Classic queues that count deliveries, without any limit, and the messages in them."""
    lake.create_missing()
    lake.append(message_state(lake.spark, messages).repartition(8, "created_day"), tables.MESSAGE_STATE)
    declared = policies(
        lake.spark.range(QUEUES),
        queue=queue("id"),
        valid_from=at(BEGIN - 2),
        event_id="concat('declared', id)",
        kind="'declared'",
        dead_letter_queue="'dead'",
        attributes="""'{"queue_type": "classic"}'""",
    )
    one = lake.spark.range(1)
    flag = policies(one, valid_from=at(BEGIN - 1), event_id="'flag'", kind="'feature_flag'")
    lake.append(declared.unionByName(flag), tables.QUEUE_POLICIES)


def set_limit(lake):
    """The policy arrives; every message is judged, and the newly dead are written."""
    change = policies(
        lake.spark.range(1),
        valid_from=at(CHANGE),
        event_id="'limit'",
        kind="'policy'",
        max_deliveries=str(LIMIT),
        attributes=f"'{json.dumps(ATTRIBUTES)}'",
    )
    lake.merge(change, tables.QUEUE_POLICIES)
    facts = facts_at(lake, from_micros(CHANGE * 1_000_000))
    facts = replace(facts, policies=lake.stage(facts.policies))
    dead = lake.stage(all_deaths(facts, REDIS, lake.stage, ["rabbitmq"]))
    lake.replace(dead, tables.DEAD_LETTERS)


def measured(lake, messages):
    prepare(lake, messages)
    began = time.perf_counter()
    set_limit(lake)
    seconds = round(time.perf_counter() - began, 3)
    dead = lake.read(tables.DEAD_LETTERS).where(f"dead_lettered_at = {at(CHANGE)} AND evidence = 'derived'").count()
    if dead != -(-messages // 100) or dead != lake.read(tables.DEAD_LETTERS).count():
        raise SystemExit(f"{dead} dead letters, and {-(-messages // 100)} messages were over the limit")
    return {"seconds": seconds, "dead_letters": dead}


def main():
    work, messages = sys.argv[1], int(sys.argv[2])
    spark = get_spark()
    tune(spark, 1 << 40)
    measured(Lake(spark, f"{work}/warm"), 1000)  # what is told is the judging's cost, not the start of a JVM
    print(json.dumps(measured(Lake(spark, f"{work}/lake"), messages)))


if __name__ == "__main__":
    main()
