"""What every table holds: the one definition of names, types, keys and comments.

Types are Spark's simple strings, so that a transform's result can be compared with its contract
word for word. All times are UTC with microseconds; all durations are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.errors import SchemaError


@dataclass(frozen=True)
class Column:
    """One column: its name, Spark type (simple string) and what it means."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Table:
    """One table of the lake.

    ``key``: columns that identify a row. ``append_only``: rows are never changed. ``stats_columns``: columns with
    min/max statistics, by which queries skip files (default: the first 32). ``deletion_vectors``: a change marks the
    row instead of rewriting a large file; off for small tables of a folder, since each query must check for vectors.
    """

    layer: str
    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()
    append_only: bool = False
    stats_columns: tuple[str, ...] = ()
    deletion_vectors: bool = False

    @property
    def full_name(self) -> str:
        """``layer.table``, as people write it."""
        return f"{self.layer}.{self.name}"

    @property
    def ddl(self) -> str:
        """The columns as ``name type, …``, as Spark takes a schema."""
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)

    @property
    def column_names(self) -> list[str]:
        """The names in table order."""
        return [column.name for column in self.columns]

    def type_of(self, name: str) -> str:
        """The type of the column called ``name``."""
        return next(column.type for column in self.columns if column.name == name)


def conform(df: DataFrame, table: Table) -> DataFrame:
    """Return ``df`` with exactly the table's columns in order, or list every discrepancy.

    Raises :class:`SchemaError` naming each missing, unexpected or differently typed column.
    """
    have = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    want = {column.name: column.type for column in table.columns}
    wrong = [f"missing {name} {kind}" for name, kind in want.items() if name not in have]
    wrong += [f"unexpected {name} {kind}" for name, kind in have.items() if name not in want]
    wrong += [
        f"{name} is {have[name]}, not {kind}" for name, kind in want.items() if name in have and have[name] != kind
    ]
    if wrong:
        raise SchemaError(f"{table.full_name}: " + "; ".join(wrong))
    return df.select(*[F.col(name) for name in want])


_IDENTITY = (
    Column("system", "string", "The broker: zaqar, rabbitmq or pulsar"),
    Column("tenant", "string", "Zaqar project, RabbitMQ vhost, or Pulsar tenant/namespace"),
    Column("queue", "string", "Queue name; for Pulsar the topic's full name"),
    Column(
        "subscription",
        "string",
        "Pulsar subscription; empty for other brokers, for a topic's own post, and where its death's is not known",
    ),
)
_MESSAGE = (
    *_IDENTITY,
    Column(
        "message_id",
        "string",
        "The broker's id of the message; RabbitMQ: the publisher's, else sha256: and a hash of it",
    ),
)
MESSAGE_KEY = tuple(column.name for column in _MESSAGE)
QUEUE_KEY = tuple(column.name for column in _IDENTITY)
QUEUE = QUEUE_KEY[:3]
"""A queue or topic, whatever its subscriptions."""
MESSAGE = (*QUEUE, MESSAGE_KEY[-1])
"""A message, whatever the subscriptions that it is delivered to."""
EVERY = "*"
"""In place of a queue's name: every queue of the tenant; in place of a tenant's: the whole broker."""

POSTED = "struct<time:timestamp,event_id:string,position:int,ttl:bigint,delay:bigint,producer:string>"
DELIVERY = (
    "struct<time:timestamp,event_id:string,claim_id:string,consumer:string,broker_count:bigint,redelivered:boolean>"
)
SETTLED = "struct<time:timestamp,event_id:string,claim_id:string,how:string>"
FAILURE = "struct<time:timestamp,event_id:string,consumer:string,error:string>"
DEATH = (
    "struct<time:timestamp,event_id:string,reason:string,dead_letter_queue:string,"
    "dead_letter_message_id:string,count:bigint,first:timestamp,told:timestamp>"
)
RENEWAL = "struct<time:timestamp,event_id:string,ttl:bigint,grace:bigint>"
CLAIMED = "struct<time:timestamp,event_id:string,ttl:bigint,grace:bigint,consumer:string>"
MEMBER = "struct<system:string,tenant:string,queue:string,subscription:string,message_id:string>"
DIFFERENCES = "array<struct<difference:string,dead_letters:bigint>>"
CONCENTRATION = (
    "array<struct<what:string,value:string,dead_letters:bigint,share:double,expected_share:double,lift:double>>"
)
TRAITS = "array<struct<what:string,value:string>>"
SAID = "array<struct<what:string,path:string,word:string>>"
TREND = "array<struct<hour:timestamp,dead_letters:bigint>>"
EARLIEST = "array<struct<dead_lettered_at:timestamp,message_id:string>>"
LENGTHS = "array<struct<length:int,dead_letters:bigint,dead_lettered_at:timestamp,message_id:string>>"
COUNTED_TRAITS = "array<struct<what:string,value:string,dead_letters:bigint>>"
RELEASED = "struct<time:timestamp,event_id:string>"

QUEUE_EVENTS = Table(
    "bronze",
    "queue_events",
    "Every raw event exactly as it came, append-only",
    ("event_id", "source_file"),
    (
        Column("event_id", "string", "SHA-256 of the raw line's bytes, hexadecimal; a resend has the same"),
        Column(
            "system",
            "string",
            "The landing folder's name, taken as the broker's name; of a Kafka topic what it was mapped to",
        ),
        Column("raw", "string", "The line, byte for byte, without its line feed"),
        Column("captured_at", "timestamp", "captured_at of the event; null where it has none that reads"),
        Column("day", "date", "Day of captured_at; 1970-01-01 where it has none"),
        Column("source_file", "string", "Where the line came from: a file, or kafka://topic/partition/offset"),
        Column("ingested_at", "timestamp", "When this lake took the line in; says nothing about the event"),
    ),
    partitioned_by=("day",),
    append_only=True,
)

MESSAGE_STATE = Table(
    "silver",
    "message_state",
    "The facts about each message and consumer group; every column is a key, a set or an earliest",
    MESSAGE_KEY,
    (
        *_MESSAGE,
        Column("created_day", "date", "Day the message was created, as the first event that names it tells"),
        Column("posted", POSTED, "The earliest post: time, raw event, place in it, TTL and delay asked for"),
        Column(
            "deliveries",
            f"array<{DELIVERY}>",
            "Every claim granted or delivery made, in time order. broker_count: deliveries before it, as the broker"
            " counts them; redelivered: whether RabbitMQ says that it is not the first",
        ),
        Column("settled", SETTLED, "The earliest deletion or acknowledgement"),
        Column("failures", f"array<{FAILURE}>", "Negative acknowledgements, requeues and rejects, with the error"),
        Column("deaths", f"array<{DEATH}>", "Deaths that the broker reported, or a consumer as its reject"),
        Column("seen", "timestamp", "Earliest time an event showed the message in this queue"),
    ),
    partitioned_by=("created_day",),
    stats_columns=MESSAGE_KEY,
    deletion_vectors=True,
)

CLAIMS = Table(
    "silver",
    "claims",
    "One row a claim: when, for how long, renewals and release",
    ("system", "tenant", "queue", "claim_id"),
    (
        *_IDENTITY[:3],
        Column("claim_id", "string", "The broker's id of the claim; of a pop its event_id"),
        Column("claimed", CLAIMED, "The grant: time, raw event, TTL, grace, consumer"),
        Column("renewals", f"array<{RENEWAL}>", "Successful renewals, in time order"),
        Column("released", RELEASED, "The earliest successful release"),
    ),
    stats_columns=QUEUE,
    deletion_vectors=True,
)

CLAIM_ATTEMPTS = Table(
    "silver",
    "claim_attempts",
    "Each attempt to claim on a queue, also the empty ones: even those can move a message",
    ("event_id",),
    (
        *_IDENTITY[:3],
        Column("event_id", "string", "The raw event of the attempt"),
        Column("time", "timestamp", "When it was made"),
        Column("limit", "bigint", "How many messages it asked for"),
        Column("granted", "bigint", "How many it was given"),
        Column("claim_id", "string", "The claim it was given, of a pop its event_id; null where it was given none"),
        Column("ttl", "bigint", "Claim TTL asked for, seconds"),
        Column("grace", "bigint", "Grace asked for, seconds"),
        Column("consumer", "string", "Client id of the consumer"),
    ),
    stats_columns=QUEUE,
)

QUEUE_POLICIES = Table(
    "silver",
    "queue_policies",
    "What each queue's delivery policy was from when on; also deletions and purges",
    (*QUEUE_KEY, "valid_from", "event_id"),
    (
        *_IDENTITY,
        Column("valid_from", "timestamp", "When it took effect"),
        Column("event_id", "string", "The raw event that said so"),
        Column(
            "kind",
            "string",
            "declared, updated, subscribed, deleted, purged; policy, operator_policy, policy_cleared, "
            "operator_policy_cleared, feature_flag, flavor; mirror_synchronised, mirror_promoted, recovered",
        ),
        Column("max_deliveries", "bigint", "_max_claim_count, delivery-limit or maxRedeliverCount; null: none"),
        Column("dead_letter_queue", "string", "Queue or topic its dead letters go to; null: none named"),
        Column("dead_letter_ttl", "bigint", "TTL a message gets when moved, seconds; null: keeps its own"),
        Column("default_ttl", "bigint", "TTL of messages posted without one, seconds"),
        Column("default_delay", "bigint", "_default_message_delay, seconds; 0: not a delayed queue"),
        Column("consumer", "string", "Pulsar: the consumer that brought the policy"),
        Column("attributes", "string", "Everything else the event said of the queue, JSON"),
    ),
)

QUARANTINE = Table(
    "silver",
    "quarantine",
    "Every event that was refused, raw, with the reasons",
    ("event_id",),
    (
        Column("event_id", "string", "SHA-256 of the raw line"),
        Column("system", "string", "The landing folder it came from"),
        Column("reasons", "array<string>", "Every rule it broke, as code: explanation"),
        Column("raw", "string", "The line as it came"),
        Column("source_file", "string", "Where it came from"),
        Column("captured_at", "timestamp", "captured_at of the event, where it reads"),
    ),
)

QUARANTINE_DECISIONS = Table(
    "control",
    "quarantine_decisions",
    "What people decided about events in quarantine, append-only; an event's newest decision counts",
    ("event_id", "decided_at", "decision"),
    (
        Column("event_id", "string", "The event, see silver.quarantine"),
        Column("decision", "string", "released: to be judged again; discarded: known to be unusable"),
        Column("who", "string", "Who decided"),
        Column("decided_at", "timestamp", "When it was decided"),
        Column("why", "string", "The reason given"),
    ),
    append_only=True,
)

DEAD_LETTERS = Table(
    "gold",
    "dead_letters",
    "One row for each dead-lettered message, at the queue where it died",
    MESSAGE_KEY,
    (
        *_MESSAGE,
        Column("dead_letter_queue", "string", "Where it went; null: dropped, or the broker does not tell"),
        Column("dead_letter_message_id", "string", "Its id there, where the broker gives it a new one"),
        Column("reason", "string", "RabbitMQ: that of x-death; Zaqar: max_claim_count; Pulsar: max_redeliver_count"),
        Column("cause", "string", "delivery_limit, rejected, ttl, length_limit or other"),
        Column("claim_count", "bigint", "Claims or deliveries that counted against the limit"),
        Column("max_deliveries", "bigint", "The limit in force when it died; null: none known"),
        Column("posted_at", "timestamp", "When it was posted; null: not seen"),
        Column("dead_lettered_at", "timestamp", "When it died"),
        Column(
            "expires_at",
            "timestamp",
            "When it expires in Zaqar's dead letter queue; null: not known, it left, or another broker",
        ),
        Column("removed_at", "timestamp", "When it was deleted or acknowledged there, as far as events tell"),
        Column(
            "evidence",
            "string",
            "observed: the broker said so; derived: its rules imply it, or a consumer wrote its reject down",
        ),
        Column("event_id", "string", "The raw event that shows or implies the death"),
        Column("pattern_id", "string", "The pattern it belongs to, see gold.poison_patterns"),
        Column("payload", "string", "The message's body, as posted; an object as Spark writes it, decimals as doubles"),
        Column(
            "payload_event_id",
            "string",
            "The raw event of the post or delivery that would hold the payload; null: none was seen",
        ),
        Column("payload_position", "int", "Its place among the messages of that event, from 0"),
        Column("error", "string", "The last error a consumer gave"),
        Column("signature", "string", "The error without what varies, as groups are made of it; null: no error"),
        Column("deviation_key", "string", "How its payload differs from healthy ones: one text for all alike"),
        Column("deviation", "array<string>", "The same in sentences; empty where it looks healthy or was not compared"),
        Column("traits", TRAITS, "Its last consumer, its producer, and the hosts and versions its payload names"),
        Column("rules_version", "string", "Version of the rules that judged it"),
    ),
    deletion_vectors=True,
)

POISON_PATTERNS = Table(
    "gold",
    "poison_patterns",
    "What dead letters have in common",
    ("pattern_id",),
    (
        Column("pattern_id", "string", "Stable id of the pattern"),
        Column("template", "string", "What its members share, variable parts masked"),
        Column("kind", "string", "error: grouped by a consumer's error; payload: by the payload's shape"),
        Column("dead_letters", "bigint", "How many dead letters it has"),
        Column("first_seen", "timestamp", "Its first death"),
        Column("last_seen", "timestamp", "Its latest death"),
        Column("queues", "array<string>", "Where its members died, sorted: system, tenant/queue, subscription"),
        Column("example_message_ids", "array<string>", "Up to three members, the earliest first"),
        Column("example_payload", "string", "The example's payload, private values masked"),
        Column("status", "string", "new, ongoing, quiet, resolved or regressed at the run's as_of"),
        Column("muted", "boolean", "Whether people decided not to be told of it, and it says no more than it did then"),
        Column("part_of", "string", "The pattern it was split from; null: from none"),
        Column("example", MEMBER, "The representative member: the one of median length"),
        Column("differences", DIFFERENCES, "How members differ from healthy payloads, and how many of them"),
        Column(
            "concentrated_in",
            CONCENTRATION,
            "Whom its members have more often than their queues' messages; shares of those that name one",
        ),
        Column("trend", TREND, "Deaths an hour, the latest 48 hours that have any"),
    ),
)

_COUNT = "bigint"
QUEUE_HEALTH = Table(
    "gold",
    "queue_health",
    "What happened in each queue in each hour",
    (*QUEUE_KEY, "hour"),
    (
        *_IDENTITY,
        Column("hour", "timestamp", "Start of the hour"),
        Column("posted", _COUNT, "Messages posted"),
        Column("claimed", _COUNT, "Claims granted or deliveries made"),
        Column("settled", _COUNT, "Messages deleted or acknowledged; one that died in this queue is not counted"),
        Column("dead_lettered", _COUNT, "Messages that died"),
        Column("delayed", _COUNT, "Messages posted with a delay in force; RabbitMQ's delays are queues of their own"),
        Column("expired_unseen", _COUNT, "Zaqar: messages whose TTL ended without any delivery"),
    ),
    deletion_vectors=True,
)

DELIVERY_SURVIVAL = Table(
    "gold",
    "delivery_survival",
    "Of the messages that reached delivery k: how many were settled at it, died after it, or ended otherwise",
    (*QUEUE_KEY, "delivery"),
    (
        *_IDENTITY,
        Column("delivery", _COUNT, "k, the first delivery is 1"),
        Column("reached", _COUNT, "Messages delivered at least k times, as a limit counts"),
        Column("settled", _COUNT, "Settled at delivery k"),
        Column("dead_lettered", _COUNT, "Died after k deliveries"),
        Column("unknown", _COUNT, "Delivered exactly k times, outcome not known (censored)"),
    ),
)

DISCREPANCIES = Table(
    "gold",
    "discrepancies",
    "Where the broker's word and the rules differ; a queue's own have an empty message_id",
    (*MESSAGE_KEY, "kind"),
    (
        *_MESSAGE,
        Column("kind", "string", "What differs, see docs/rules.md"),
        Column("at", "timestamp", "When it showed"),
        Column("broker_says", "string", "What the broker did or said"),
        Column("rules_say", "string", "What its documents imply"),
    ),
)

QUALITY_METRICS = Table(
    "gold",
    "quality_metrics",
    "What the quality gates found: one row a rule and run",
    ("run_id", "table_name", "rule_id"),
    (
        Column("run_id", "string", "The run that judged"),
        Column("judged_at", "timestamp", "When the run began to judge"),
        Column("table_name", "string", "The table or batch that was judged, layer.table"),
        Column("rule_id", "string", "The rule's UUID in expectations/"),
        Column("rule", "string", "What the rule says, for people"),
        Column("severity", "string", "critical, warning or info"),
        Column("rows", _COUNT, "Rows the rule looked at"),
        Column("failing", _COUNT, "Rows that broke it; 1 where a figure of the whole table did"),
        Column("passed", "boolean", "Whether the rule held"),
        Column("refused", "boolean", "Whether its failing rows were taken out, into quarantine"),
        Column("observed", "string", "What was found"),
        Column("expected", "string", "What the rule asks for"),
        Column("drift_p", "double", "How likely such a share is by the rule's own past, corrected; null: too short"),
    ),
)

PATTERN_ALIASES = Table(
    "gold",
    "pattern_aliases",
    "Ids that patterns had before they widened or were merged, and the ids they have now",
    ("alias",),
    (
        Column("alias", "string", "An id that a pattern, or a part of one, had or would have had on its own"),
        Column(
            "pattern_id",
            "string",
            "The pattern that holds its dead letters now, or its own id where that was merged: look that up here again",
        ),
        Column("reason", "string", "grouping: it widened or came together with another; merged: people said so"),
    ),
)

PATTERN_DECISIONS = Table(
    "control",
    "pattern_decisions",
    "What people decided about patterns, append-only; what holds follows from all rows in order",
    ("decided_at", "pattern_id", "action"),
    (
        Column("pattern_id", "string", "The pattern, by the id it had then"),
        Column("action", "string", "resolve, reopen, mute, unmute, merge or split"),
        Column(
            "target",
            "string",
            "merge: the pattern it becomes part of; mute: its template then, null: any; split: what keeps the id says",
        ),
        Column("along", "string", "split: queue, error or deviation; null: undo a merge or a split"),
        Column("effective_at", "timestamp", "resolve: a death after it is a regression"),
        Column("decided_by", "string", "Who decided"),
        Column("why", "string", "Why, in their own words"),
        Column("decided_at", "timestamp", "When it was written down"),
    ),
    append_only=True,
)

AT_RISK = Table(
    "gold",
    "at_risk",
    "Messages that are not dead yet: at most one delivery left, or wrong in a way that has killed others",
    MESSAGE_KEY,
    (
        *_MESSAGE,
        Column(
            "risk",
            "string",
            "at_limit: dead at the next delivery (RabbitMQ: as it returns); one_short: one is left; known_pattern",
        ),
        Column("status", "string", "available, claimed, delayed or outcome_unknown at the run's as_of"),
        Column("claim_count", "bigint", "Claims or deliveries that count against the limit"),
        Column("max_deliveries", "bigint", "The limit in force; null: none"),
        Column("deliveries_left", "bigint", "Deliveries until it dies; null without a limit"),
        Column("pattern_id", "string", "The pattern of the dead letters it is like; null: like none"),
        Column("deviation", "array<string>", "How its payload differs from healthy ones of its queue"),
        Column("error", "string", "The last error a consumer gave"),
        Column("posted_at", "timestamp", "When it was posted; null: not seen"),
        Column("last_delivery_at", "timestamp", "Its latest claim or delivery; null: none"),
        Column("expires_at", "timestamp", "When it expires; null: not known"),
    ),
)

_OPEN = tuple(column for column in AT_RISK.columns if column.name not in ("risk", "pattern_id"))
SUSPECTS = Table(
    "control",
    "suspects",
    "Open messages that are at risk, or would be if a pattern became known: gold.at_risk is made of them",
    MESSAGE_KEY,
    (
        *_OPEN,
        Column("signature", "string", "As in gold.dead_letters"),
        Column("deviation_key", "string", "As in gold.dead_letters"),
    ),
)

COLLATERAL = Table(
    "gold",
    "collateral",
    "Dead letters that look healthy and whose every claim held poison, too",
    MESSAGE_KEY,
    (
        *_MESSAGE,
        Column("dead_lettered_at", "timestamp", "When it died"),
        Column("claims", "bigint", "Its claims until then, each with poison beside it"),
        Column("poison_message_ids", "array<string>", "Up to ten of the poison messages beside it"),
        Column("pattern_ids", "array<string>", "The patterns these belong to"),
        Column(
            "by_chance",
            "double",
            "How probable so many poisoned claims are for any message here: near 1 they say nothing",
        ),
    ),
)

QUEUE_CHANGES = Table(
    "control",
    "queue_changes",
    "Which queues each merge into silver told something of, append-only: gold derives their rows anew. One begun again "
    "has its rows twice",
    (*QUEUE, "source_version"),
    (
        *_IDENTITY[:2],
        Column("queue", "string", "Queue or topic; *: the change may concern every queue of the tenant"),
        Column("source_version", "bigint", "The version of bronze that was merged"),
        Column("earliest", "timestamp", "Time of the merge's first fact about the queue; null: it was only named"),
        Column("latest", "timestamp", "Time of the last one: gold as of an earlier time does not have it"),
        Column("days", "array<date>", "Zaqar: on which days the messages that it told of were created, where known"),
    ),
    append_only=True,
)

QUEUE_OUTLOOK = Table(
    "control",
    "queue_outlook",
    "What changes a queue's rows of gold although no event of its own comes",
    QUEUE,
    (
        *_IDENTITY[:3],
        Column("next_change", "timestamp", "When the next delay, claim or TTL of a message ends; null: none runs"),
    ),
)

QUEUE_PROFILE = Table(
    "control",
    "queue_profile",
    "What a queue's messages have in common, counted: payloads of healthy ones, and who posted and received any",
    (*QUEUE_KEY, "what", "name", "value"),
    (
        *_IDENTITY,
        Column("what", "string", "Of healthy payloads path, kind, value or field; of messages consumer or producer"),
        Column("name", "string", "The JSON path, or the field's name; empty for consumers and producers"),
        Column("value", "string", "The type or value there, or who it was"),
        Column("messages", "bigint", "How many messages have it"),
    ),
)

DEAD_LETTER_COUNTS = Table(
    "control",
    "dead_letter_counts",
    "What is counted of dead letters that say the same: gold.poison_patterns is made of it",
    (*QUEUE_KEY, "signature", "deviation_key"),
    (
        *_IDENTITY,
        Column("signature", "string", "As in gold.dead_letters"),
        Column("deviation_key", "string", "As in gold.dead_letters"),
        Column("pattern_id", "string", "As in gold.dead_letters"),
        Column("dead_letters", "bigint", "How many they are"),
        Column("last_seen", "timestamp", "The latest death"),
        Column("earliest", EARLIEST, "Up to three of them, the earliest first"),
        Column("hours", TREND, "Deaths an hour, the latest 48 hours that have any"),
        Column("lengths", LENGTHS, "Characters of their payloads, how many have so many, and the earliest that does"),
        Column("differences", DIFFERENCES, "How they differ from healthy payloads, and how many of them"),
        Column(
            "traits",
            COUNTED_TRAITS,
            "How many have each trait; of a payload's, a message counts once, whichever subscriptions it died in",
        ),
    ),
)

HEALTHY_SAMPLE = Table(
    "control",
    "healthy_sample",
    "The healthy messages of each queue that control.queue_profile counts, so that each payload is read once",
    MESSAGE,
    (
        *_IDENTITY[:3],
        _MESSAGE[-1],
        Column("created_day", "date", "As in silver.message_state"),
        Column("payload_event_id", "string", "The raw event that holds the payload"),
        Column("payload_position", "int", "Its place among the messages of that event, from 0"),
        Column(
            "facts",
            SAID,
            "What the payload says, as control.queue_profile tells it; path is its name, word its value",
        ),
    ),
    deletion_vectors=True,
)

JUDGED_MESSAGES = Table(
    "control",
    "judged_messages",
    "Zaqar's messages that a rule has a word on, as silver has them: a run reads there only the days that changed",
    MESSAGE_KEY,
    MESSAGE_STATE.columns,
    stats_columns=(*QUEUE, "created_day"),
    deletion_vectors=True,
)

COUNTED_MESSAGES = Table(
    "control",
    "counted_messages",
    "Zaqar's messages that no rule has a word on, counted: claimed once at most, and settled",
    (*QUEUE_KEY, "created_day", "post", "event_id", "settled_hour"),
    (
        *_IDENTITY,
        Column("created_day", "date", "As in silver.message_state"),
        Column("producer", "string", "Who posted them"),
        Column("claimed_at", "timestamp", "When they were claimed; null: never, and so in the claim's other columns"),
        Column("event_id", "string", "The raw event of the claim"),
        Column("claim_id", "string", "The broker's id of the claim"),
        Column("consumer", "string", "Who claimed them"),
        Column("settled_hour", "timestamp", "Start of the hour in which they were settled"),
        Column("messages", _COUNT, "How many they are"),
        Column("post", "struct<time:timestamp,event_id:string,position:int>", "Their post, and the place of the first"),
    ),
    stats_columns=(*QUEUE, "created_day"),
    deletion_vectors=True,
)

KEPT_QUEUES = Table(
    "control",
    "kept_queues",
    "The queues whose messages are in control.judged_messages and control.counted_messages",
    QUEUE,
    (
        *_IDENTITY[:3],
        Column("source_version", "bigint", "The version of bronze up to which these hold all facts"),
        Column("messages", _COUNT, "How many messages the queue had then"),
    ),
)

PROGRESS = Table(
    "control",
    "progress",
    "How far each step has come; the newest row of a step counts",
    ("step", "finished_at"),
    (
        Column(
            "step",
            "string",
            "silver, gold; under way: merging, writing, releasing; how silver was read: parser, suites; how gold was "
            "derived: decisions, masks, habits, rules, sample; which Zaqar store was chosen: store",
        ),
        Column(
            "source_version",
            "bigint",
            "silver, gold: the bronze version they hold, -1: derived anew; under way: 0 if not; else a number of it",
        ),
        Column("as_of", "timestamp", "The as_of that gold was computed for; for silver the latest event's time"),
        Column("finished_at", "timestamp", "When the step finished"),
    ),
)

ALL_TABLES = (
    QUEUE_EVENTS,
    MESSAGE_STATE,
    CLAIMS,
    CLAIM_ATTEMPTS,
    QUEUE_POLICIES,
    QUARANTINE,
    QUARANTINE_DECISIONS,
    DEAD_LETTERS,
    POISON_PATTERNS,
    QUEUE_HEALTH,
    DELIVERY_SURVIVAL,
    DISCREPANCIES,
    QUALITY_METRICS,
    AT_RISK,
    COLLATERAL,
    PATTERN_ALIASES,
    PATTERN_DECISIONS,
    QUEUE_CHANGES,
    QUEUE_OUTLOOK,
    QUEUE_PROFILE,
    DEAD_LETTER_COUNTS,
    HEALTHY_SAMPLE,
    JUDGED_MESSAGES,
    COUNTED_MESSAGES,
    KEPT_QUEUES,
    SUSPECTS,
    PROGRESS,
)
BY_NAME = {table.name: table for table in ALL_TABLES} | {table.full_name: table for table in ALL_TABLES}


def find(name: str) -> Table | None:
    """The table called ``name``, with or without its layer; ``None`` if there is none.

    >>> find("dead_letters").full_name
    'gold.dead_letters'
    >>> find("gold.dead_letters") is find("dead_letters")
    True
    """
    return BY_NAME.get(name)
