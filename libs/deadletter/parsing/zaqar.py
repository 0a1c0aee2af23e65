"""OpenStack Zaqar: HTTP exchanges of the messaging API (v1.1 and v2) as a tap saw them.

An exchange is one request with its response: ``method, path, query, project_id, client_id,
request_body, status, response_body``. Only what the broker granted (2xx) is a fact.
"""

from __future__ import annotations

import os
import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.parsing.envelope import ENVELOPE_RULES, MOST_SECONDS, read_envelope
from deadletter.parsing.facts import Facts, explode_messages, message_fact, reasons, rows_of
from deadletter.rules.rabbitmq import EVERY

SYSTEM = "zaqar"
MAX_MESSAGE_DELAY = 900
"""``max_message_delay`` unless configured, seconds (Delayed Queues, implementation step 1)."""
DEFAULT_CLAIM_LIMIT = 10
DEFAULT_CLAIM_TTL = 300
DEFAULT_CLAIM_GRACE = 60
DEFAULT_MESSAGE_TTL = 3600

FIELDS = {
    name: name
    for name in (
        "method",
        "path",
        "query",
        "project_id",
        "client_id",
        "request_body",
        "status",
        "response_body",
    )
}
FLAVOR_PATH = r"^/v(?:1|1\.1|2)/flavors/([^/?]+)/?$"
PATH = r"^/v(?:1|1\.1|2)/queues/([^/?]*)(?:/([a-z]+)(?:/([^/?]+))?)?/?$"
POST_BODY = "struct<messages:array<struct<ttl:string,delay:string>>>"
GRANTED = "struct<messages:array<struct<id:string,href:string,claim_id:string,age:string>>>"

_PURGES_MESSAGES = (
    "(get_json_object(request_body, '$.resource_types') IS NULL OR coalesce(array_contains("
    "from_json(get_json_object(request_body, '$.resource_types'), 'array<string>'), 'messages'), false))"
)
"""A purge may name ``messages``, ``subscriptions`` or both; without a word it is of both."""

KINDS = {
    "flavor": "flavor != '' AND (method = 'PUT' AND code = 201 OR method = 'PATCH' AND code = 200)",
    "declare": "method = 'PUT' AND queue != '' AND part = '' AND code = 201",
    "update": "method = 'PATCH' AND queue != '' AND part = '' AND code = 200",
    "delete_queue": "method = 'DELETE' AND queue != '' AND part = '' AND code = 204",
    "purge": f"method = 'POST' AND part = 'purge' AND code = 204 AND {_PURGES_MESSAGES}",
    "post": "method = 'POST' AND part = 'messages' AND item = '' AND code = 201",
    "pop": (
        "method = 'DELETE' AND part = 'messages' AND item = '' AND query_map['pop'] IS NOT NULL AND code IN (200, 204)"
    ),
    "delete": "method = 'DELETE' AND part = 'messages' AND query_map['pop'] IS NULL AND code = 204",
    "claim": "method = 'POST' AND part = 'claims' AND item = '' AND code IN (200, 201, 204)",
    "renew": "method = 'PATCH' AND part = 'claims' AND item != '' AND code = 204",
    "release": "method = 'DELETE' AND part = 'claims' AND item != '' AND code = 204",
}
"""What each exchange that says something about messages looks like."""

RULES = ENVELOPE_RULES | {
    "no_method: method is missing": "readable AND method IS NULL",
    "unknown_method: method is not one of the API's": (
        "readable AND method NOT IN ('GET', 'HEAD', 'PUT', 'POST', 'PATCH', 'DELETE')"
    ),
    "no_path: path is missing": "readable AND path IS NULL",
    "unknown_path: path is not one of the messaging API's": (
        r"readable AND path IS NOT NULL AND NOT (path RLIKE '^/v(1|1\\.1|2)(/|$)')"
    ),
    "bad_queue_name: a queue's name has 1 to 64 letters, digits, _ and -": (
        r"readable AND path RLIKE '^/v(1|1\\.1|2)/queues/' AND NOT (queue RLIKE '^[A-Za-z0-9_-]{1,64}$')"
    ),
    "no_tenant: project_id is missing or no text": (
        r"readable AND (coalesce(project_id, '') = '' OR project_id RLIKE '^[\\[{]')"
    ),
    "bad_query: query is not an object": "readable AND query IS NOT NULL AND NOT startswith(query, '{')",
    "no_message_ids: a delete names no message": (
        "kind = 'delete' AND (deleted_ids IS NULL OR exists(deleted_ids, m -> trim(m) = ''))"
    ),
    "bad_status: status is not an HTTP status": "readable AND (code IS NULL OR code NOT BETWEEN 100 AND 599)",
    "bad_request_body: the request's messages do not read": (
        "kind = 'post' AND (posts IS NULL OR exists(posts, m -> m IS NULL))"
    ),
    "resources_do_not_match: the response names another number of messages than the request": (
        "kind = 'post' AND posts IS NOT NULL AND (resources IS NULL OR size(posts) != size(resources))"
    ),
    "bad_ttl: a TTL is a whole number of seconds above 0, at most 100 years": (
        "exists(posts, m -> m.ttl IS NOT NULL AND NOT "
        f"coalesce(try_cast(m.ttl AS bigint) BETWEEN 1 AND {MOST_SECONDS}, false))"
    ),
    "bad_claim: a claim's limit, TTL or grace is not a whole number from 0, of seconds at most 100 years": (
        "kind IN ('claim', 'pop', 'renew') AND (claim_limit IS NULL OR claim_ttl IS NULL OR claim_grace IS NULL"
        f" OR claim_limit < 0 OR claim_ttl NOT BETWEEN 0 AND {MOST_SECONDS}"
        f" OR claim_grace NOT BETWEEN 0 AND {MOST_SECONDS} OR NOT startswith(coalesce(request_body, '{{'), '{{'))"
    ),
    "bad_response_body: the response's messages do not read": (
        "kind IN ('claim', 'pop') AND code != 204 AND (granted IS NULL OR exists(granted, m -> m.id IS NULL))"
    ),
    "bad_age: a message's age is not a number of seconds, at most 100 years": (
        "exists(granted, m -> m.age IS NOT NULL AND NOT "
        f"coalesce(abs(try_cast(m.age AS decimal(38,6))) <= {MOST_SECONDS}, false))"
    ),
    "no_claim_id: the response does not name its claim": (
        "kind IN ('claim', 'pop') AND size(granted) > 0 AND claim_id IS NULL"
    ),
    "bad_flavor: the flavor's pool_list is not a list of names": (
        "kind = 'flavor' AND (pools IS NULL OR size(pools) = 0 OR exists(pools, p -> p IS NULL))"
    ),
    "bad_policy: a limit, TTL or delay of the queue is not a whole number from 0, of seconds at most 100 years": (
        "kind IN ('declare', 'update') AND (metadata IS NULL OR exists(array('_max_claim_count', "
        "'_dead_letter_queue_messages_ttl', '_default_message_ttl', '_default_message_delay'), name -> "
        "metadata[name] IS NOT NULL AND NOT "
        f"coalesce(try_cast(metadata[name] AS bigint) BETWEEN 0 AND {MOST_SECONDS}, false)))"
    ),
}


def delay_rule() -> dict[str, str]:
    """The rule about delays; ``DEADLETTER_MAX_MESSAGE_DELAY`` names the servers' ``max_message_delay`` in seconds where
    it is not :data:`MAX_MESSAGE_DELAY`. Raises :class:`UsageError` where it is no whole number.
    """
    most = os.environ.get("DEADLETTER_MAX_MESSAGE_DELAY", str(MAX_MESSAGE_DELAY))
    if not re.fullmatch("[0-9]{1,9}", most):
        raise UsageError(f"DEADLETTER_MAX_MESSAGE_DELAY={most}: it must be a whole number of seconds, like 900")
    broken = f"NOT coalesce(try_cast(m.delay AS bigint) BETWEEN 0 AND {most}, false)"
    return {
        f"bad_delay: a delay is a whole number of seconds from 0 to {most}": (
            f"exists(posts, m -> m.delay IS NOT NULL AND {broken})"
        )
    }


def parse(bronze: DataFrame) -> DataFrame:
    """Zaqar's bronze rows with what each exchange says: ``kind``, its parts, ``facts`` and ``reasons``."""
    events = read_envelope(bronze, SYSTEM, FIELDS)
    events = events.withColumns(
        {
            "tenant": F.col("project_id"),
            "queue": F.regexp_extract("path", PATH, 1),
            "flavor": F.regexp_extract("path", FLAVOR_PATH, 1),
            "part": F.regexp_extract("path", PATH, 2),
            "item": F.regexp_extract("path", PATH, 3),
            "code": F.expr("try_cast(status AS int)"),
            "query_map": F.expr("coalesce(from_json(query, 'map<string,string>'), map())"),
        }
    )
    kind = F.expr("CASE " + " ".join(f"WHEN {test} THEN '{name}'" for name, test in KINDS.items()) + " END")
    events = events.withColumn("kind", kind).withColumns(_parts())
    events = events.withColumn("claim_id", F.expr(_CLAIM_ID))
    told = {"reasons": reasons(RULES | delay_rule()), "silent": F.expr(_SILENT), "facts": F.expr(_facts())}
    told["granted_count"] = F.size("granted")
    return events.withColumns(told).drop(*_SPENT)


_SPENT = ("query", "request_body", "response_body", "posts", "resources", "deleted_ids", "granted", "path")
"""What nothing asks for once facts and reasons are made; most of an event's bytes."""
_SILENT = "kind IS NULL OR (kind = 'post' AND coalesce(size(posts) = 0, false))"
_CLAIM_ID = (
    r"coalesce(nullif(regexp_extract(get(granted, 0).href, 'claim_id=([^&]+)', 1), ''), get(granted, 0).claim_id)"
)


def _parts() -> dict:
    """The request's and response's parts that facts are made of; null where the exchange has none."""
    pop = "kind = 'pop'"
    asked = "CASE WHEN kind IN ('claim', 'renew') THEN from_json(request_body, 'map<string,string>') END"
    metadata = "CASE kind WHEN 'declare' THEN request_body WHEN 'update' THEN response_body END"
    return {
        "posts": F.expr(f"CASE WHEN kind = 'post' THEN from_json(request_body, '{POST_BODY}').messages END"),
        "resources": F.expr(
            "CASE WHEN kind = 'post' THEN from_json(response_body, 'struct<resources:array<string>>').resources END"
        ),
        "granted": F.expr(
            "CASE WHEN kind IN ('claim', 'pop') THEN"
            f" CASE WHEN code = 204 THEN array() ELSE from_json(response_body, '{GRANTED}').messages END END"
        ),
        "metadata": F.expr(f"from_json(coalesce({metadata}, '{{}}'), 'map<string,string>')"),
        "pools": F.expr(
            "CASE WHEN kind = 'flavor' THEN from_json(coalesce(get_json_object(response_body, '$.pool_list'), "
            "get_json_object(request_body, '$.pool_list')), 'array<string>') END"
        ),
        "claim_limit": F.expr(
            f"CASE WHEN {pop} THEN try_cast(query_map['pop'] AS bigint)"
            f" ELSE {_number('limit', 'query_map', DEFAULT_CLAIM_LIMIT)} END"
        ),
        # a pop is a claim of one second that is settled and released at once
        "claim_ttl": F.expr(f"CASE WHEN {pop} THEN 1L ELSE {_number('ttl', asked, DEFAULT_CLAIM_TTL)} END"),
        "claim_grace": F.expr(f"CASE WHEN {pop} THEN 0L ELSE {_number('grace', asked, DEFAULT_CLAIM_GRACE)} END"),
        "deleted_ids": F.expr(
            "CASE WHEN kind = 'delete' THEN split(coalesce(nullif(item, ''), query_map['ids']), ',') END"
        ),
    }


def _number(name: str, source: str, default: int) -> str:
    """SQL for a whole number in a map: the default where it is not given, null where it does not read."""
    value = f"({source})['{name}']"
    return f"coalesce(try_cast({value} AS bigint), CASE WHEN {value} IS NULL THEN {default}L END)"


def _facts() -> str:
    """SQL for the array of message facts of an exchange."""
    posted = message_fact(
        queue="queue",
        message_id="element_at(split(get(resources, i), '/'), -1)",
        created_at="time",
        posted=(
            "named_struct('time', time, 'event_id', event_id, 'position', i, "
            "'ttl', try_cast(m.ttl AS bigint), 'delay', try_cast(m.delay AS bigint), 'producer', client_id)"
        ),
    )
    delivery = (
        "named_struct('time', time, 'event_id', event_id, 'claim_id', claim_id, "
        "'consumer', client_id, 'broker_count', NULL)"
    )
    created = "time - make_dt_interval(0, 0, 0, try_cast(m.age AS decimal(18,6)))"
    settled = "named_struct('time', time, 'event_id', event_id, 'claim_id', {}, 'how', '{}')"
    claimed = {"queue": "queue", "message_id": "m.id", "created_at": created, "delivery": delivery}
    popped = claimed | {"settled": settled.format("claim_id", "pop")}
    deleted = {
        "queue": "queue",
        "message_id": "trim(m)",
        "settled": settled.format("query_map['claim_id']", "delete"),
    }
    return (
        f"CASE kind WHEN 'post' THEN transform(posts, (m, i) -> {posted})"
        f" WHEN 'claim' THEN transform(granted, m -> {message_fact(**claimed)})"
        f" WHEN 'pop' THEN transform(granted, m -> {message_fact(**popped)})"
        f" WHEN 'delete' THEN transform(deleted_ids, m -> {message_fact(**deleted)}) END"
    )


def facts(parsed: DataFrame) -> Facts:
    """The facts of parsed exchanges; ``parsed`` is read several times, so so it had better be staged."""
    common = {"system": "system", "tenant": "tenant", "queue": "queue"}
    term = "named_struct('time', time, 'event_id', event_id, 'ttl', claim_ttl, 'grace', claim_grace{})"
    grant = term.format(", 'consumer', client_id")
    moment = "named_struct('time', time, 'event_id', event_id)"
    claims = rows_of(
        parsed.where("NOT (kind IN ('claim', 'pop') AND granted_count = 0)"),
        tables.CLAIMS,
        ["claim", "pop", "renew", "release"],
        common
        | {
            "claim_id": "coalesce(claim_id, item)",
            "claimed": f"CASE WHEN kind IN ('claim', 'pop') THEN {grant} END",
            "renewals": f"CASE WHEN kind = 'renew' THEN array({term.format('')}) ELSE array() END",
            "released": f"CASE WHEN kind IN ('release', 'pop') THEN {moment} END",
        },
    )
    attempts = rows_of(
        parsed,
        tables.CLAIM_ATTEMPTS,
        ["claim", "pop"],
        common
        | {
            "event_id": "event_id",
            "time": "time",
            "limit": "claim_limit",
            "granted": "granted_count",
            "claim_id": "claim_id",
            "ttl": "claim_ttl",
            "grace": "claim_grace",
            "consumer": "client_id",
        },
    )
    return Facts(parsed, explode_messages(parsed), claims, attempts, _policies(parsed, common))


def _policies(parsed: DataFrame, common: dict[str, str]) -> DataFrame:
    kinds = {"declare": "declared", "update": "updated", "delete_queue": "deleted", "purge": "purged"}
    return rows_of(
        parsed,
        tables.QUEUE_POLICIES,
        list(kinds),
        common
        | {
            "subscription": "''",
            "valid_from": "time",
            "event_id": "event_id",
            "kind": "CASE kind " + " ".join(f"WHEN '{k}' THEN '{v}'" for k, v in kinds.items()) + " END",
            "max_deliveries": "metadata['_max_claim_count']",
            "dead_letter_queue": "nullif(metadata['_dead_letter_queue'], '')",
            "dead_letter_ttl": "metadata['_dead_letter_queue_messages_ttl']",
            "default_ttl": "metadata['_default_message_ttl']",
            "default_delay": "coalesce(CAST(metadata['_default_message_delay'] AS bigint), 0L)",
            "attributes": "to_json(metadata)",
        },
    ).unionByName(_flavors(parsed))


def _flavors(parsed: DataFrame) -> DataFrame:
    """Which pools a flavor stands for; a queue names its flavor when it is created (``_flavor``)."""
    return rows_of(
        parsed,
        tables.QUEUE_POLICIES,
        ["flavor"],
        {
            "system": "system",
            "tenant": "tenant",
            "queue": f"'{EVERY}'",
            "subscription": "''",
            "valid_from": "time",
            "event_id": "event_id",
            "kind": "kind",
            "default_delay": "0L",
            "attributes": "to_json(named_struct('flavor', flavor, 'pools', pools))",
        },
    )
