"""OpenStack Zaqar: HTTP exchanges of the messaging API (v1.1 and v2) as a tap saw them.

Of v1, whose bodies are lists, posts and granted claims are refused.

An exchange is one request with its response: ``method, path, query, project_id, client_id,
request_body, status, response_body``. Only what the broker granted (2xx) is a fact.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.parsing.envelope import ENVELOPE_RULES, MOST_SECONDS, read_shaped_envelope, seconds
from deadletter.parsing.facts import Facts, message_columns, reasons, rows_of
from deadletter.rules.zaqar import DEFAULT_TTL
from deadletter.spark.columns import unescaped

SYSTEM = "zaqar"
DEFAULT_CLAIM_LIMIT = 10
DEFAULT_CLAIM_TTL = 300
DEFAULT_CLAIM_GRACE = 60
MOST_DELIVERIES = 2**31 - 1
"""A higher limit is never reached either."""

FIELDS = ("method", "path", "query", "project_id", "client_id", "request_body", "status", "response_body")
FLAVOR_PATH = r"^/v(?:1|1\.1|2)/flavors/([^/?]+)/?$"
PATH = r"^/v(?:1|1\.1|2)/queues/([^/?]*)(?:/([a-z]+)(?:/([^/?]+)(?:/[^?]*)?)?)?/?$"
ACCEPTED = "code BETWEEN 200 AND 299"
WRITTEN = f"{ACCEPTED} AND method NOT IN ('GET', 'HEAD', 'OPTIONS')"
"""What was refused or only asked for says nothing of messages, whatever it names: a load balancer's probe, say."""
MESSAGES = "array<struct<id:string,href:string,claim_id:string,age:string,ttl:string,delay:string>>"
"""The messages in the body of a request that posts them or of a response that grants them."""
SHAPES = {
    "query_map": ("query", "map<string,string>"),
    "request": ("request_body", f"struct<messages:{MESSAGES},ttl:string,grace:string>"),
    "response": ("response_body", f"struct<messages:{MESSAGES},resources:array<string>>"),
}
"""What is read with the line."""
ABOUT_QUEUES = "NOT line.path RLIKE '^/[^/]+/queues/[^/]+/(messages|claims)'"
"""The exchanges about a queue or a flavor: their bodies are read as texts."""

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
BEFORE_V2 = r"path RLIKE '^/v1(\\.1)?/'"
"""There a post has no delay, and no default of its queue's counts: the server reads nothing of the queue."""

_BODY = "nullif(trim(request_body), '')"
"""A tap that writes bodies as texts has an empty one where a request has none."""
RULES = ENVELOPE_RULES | {
    "no_method: method is missing": "readable AND method IS NULL",
    "unknown_method: method is not one of the API's": (
        f"readable AND {ACCEPTED} AND method NOT IN ('GET', 'HEAD', 'OPTIONS', 'PUT', 'POST', 'PATCH', 'DELETE')"
    ),
    "no_path: path is missing": "readable AND path IS NULL",
    "unknown_path: path is not one of the messaging API's": (
        rf"readable AND {ACCEPTED} AND NOT (path RLIKE '^/(v(1|1\\.1|2)(/|$)|healthcheck$|$)')"
    ),
    "query_in_path: the path holds a query string; write it in query as an object": (
        rf"readable AND {WRITTEN} AND contains(path, '?') AND path RLIKE '^/v(1|1\\.1|2)/(queues|flavors)/'"
    ),
    "bad_queue_name: a queue's name has 1 to 64 letters, digits, dots, _ and -": (
        rf"readable AND {WRITTEN} AND path RLIKE '^/v(1|1\\.1|2)/queues/' AND NOT contains(path, '?')"
        " AND NOT (queue RLIKE '^[A-Za-z0-9_.-]{1,64}$')"
    ),
    "no_tenant: project_id is missing or no text": (
        rf"readable AND {WRITTEN} AND (coalesce(project_id, '') = '' OR project_id RLIKE '^[\\[{{]')"
    ),
    "bad_query: query is not an object": "readable AND query IS NOT NULL AND NOT startswith(query, '{')",
    "no_message_ids: a delete, or the response to a post, names a message without its id": (
        "kind = 'delete' AND coalesce(size(ids), 0) = 0"
        " OR kind = 'post' AND exists(ids, id -> coalesce(trim(substring_index(id, '/', -1)), '') = '')"
    ),
    "bad_status: status is not an HTTP status": "readable AND (code IS NULL OR code NOT BETWEEN 100 AND 599)",
    "bad_request_body: the request's messages do not read": (
        "kind = 'post' AND (messages IS NULL OR exists(messages, m -> m IS NULL))"
    ),
    "resources_do_not_match: the response names another number of messages than the request": (
        "kind = 'post' AND messages IS NOT NULL AND (ids IS NULL OR size(messages) != size(ids))"
    ),
    "bad_ttl: a TTL is a whole number of seconds above 0, at most 100 years": (
        "kind = 'post' AND exists(messages, m -> m.ttl IS NOT NULL AND NOT "
        f"coalesce(try_cast(m.ttl AS bigint) BETWEEN 1 AND {MOST_SECONDS}, false))"
    ),
    "bad_claim: a claim's limit, TTL or grace is not a whole number from 0, of seconds at most 100 years": (
        "kind IN ('claim', 'pop', 'renew') AND (claim_limit IS NULL OR claim_ttl IS NULL OR claim_grace IS NULL"
        f" OR claim_limit < 0 OR claim_ttl NOT BETWEEN 0 AND {MOST_SECONDS}"
        f" OR claim_grace NOT BETWEEN 0 AND {MOST_SECONDS} OR NOT startswith(coalesce({_BODY}, '{{'), '{{'))"
    ),
    "bad_response_body: the response's messages do not read, or one has no id": (
        "kind IN ('claim', 'pop') AND code != 204"
        " AND (messages IS NULL OR exists(messages, m -> coalesce(m.id, '') = ''))"
    ),
    # below 0 by the difference of two clocks at most
    "bad_age: a message's age is not a number of seconds, from minus a day to 100 years": (
        "kind IN ('claim', 'pop') AND exists(messages, m -> m.age IS NOT NULL AND NOT "
        f"coalesce(try_cast(m.age AS decimal(38,6)) BETWEEN -86400 AND {MOST_SECONDS}, false))"
    ),
    "no_claim_id: the response does not name its claim": (
        "kind IN ('claim', 'pop') AND size(messages) > 0 AND claim_id IS NULL"
    ),
    "bad_flavor: the flavor's pool_list is not a list of names": (
        "kind = 'flavor' AND (pools IS NULL OR size(pools) = 0 OR exists(pools, p -> p IS NULL))"
    ),
    "no_metadata: a change of the queue is not answered with its metadata": "kind = 'update' AND metadata IS NULL",
    "bad_policy: the queue's limit is no whole number, or a TTL or delay none of seconds from 0, at most 100 years": (
        "kind = 'declare' AND metadata IS NULL OR kind IN ('declare', 'update') AND (metadata['_max_claim_count'] IS "
        "NOT NULL AND try_cast(metadata['_max_claim_count'] AS bigint) IS NULL OR exists(array("
        "'_dead_letter_queue_messages_ttl', '_default_message_ttl', '_default_message_delay'), name -> "
        "metadata[name] IS NOT NULL AND NOT "
        f"coalesce(try_cast(metadata[name] AS bigint) BETWEEN 0 AND {MOST_SECONDS}, false)))"
    ),
}


def parse(bronze: DataFrame) -> DataFrame:
    """Zaqar's bronze rows with what each exchange says: ``kind``, its parts and ``reasons``."""
    events = read_shaped_envelope(bronze, SYSTEM, FIELDS, SHAPES, with_texts=ABOUT_QUEUES)
    events = events.withColumns(
        {
            "tenant": F.col("project_id"),
            "queue": _name(PATH, 1),
            "flavor": _name(FLAVOR_PATH, 1),
            "part": F.regexp_extract("path", PATH, 2),
            "item": _name(PATH, 3),
            "code": F.expr("try_cast(status AS int)"),
            "before_v2": F.expr(BEFORE_V2),
            "query_map": F.expr("coalesce(query_map, map())"),
        }
    )
    kind = F.expr("CASE " + " ".join(f"WHEN {test} THEN '{name}'" for name, test in KINDS.items()) + " END")
    events = events.withColumn("kind", kind).withColumns(_parts()).withColumns(_terms())
    told = {"reasons": reasons(RULES), "silent": F.expr(_SILENT)}
    return events.withColumns(told).withColumn("messages", F.expr(_KEPT)).drop(*_SPENT)


def _name(pattern: str, group: int) -> Column:
    """A name in the path as the broker reads it, which decodes what a client escaped; few paths have any of that."""
    part = F.regexp_extract("path", pattern, group)
    return F.when(F.contains("path", F.lit("%")), unescaped(part)).otherwise(part)


_SPENT = ("query", "request_body", "response_body", "request", "response", "path")
"""What nothing asks for once its parts are read; most of an event's bytes."""
_KEPT = "arrays_zip(messages.id, messages.age, messages.ttl, messages.delay)"
"""What of the messages the facts are made of: their addresses are longer than all the rest."""
_SILENT = "kind IS NULL OR (kind = 'post' AND coalesce(size(messages) = 0, false))"


def _parts() -> dict:
    """What is read from the bodies; null where the exchange has none.

    ``messages`` are those posted or granted, ``ids`` the messages posted, as the response names them, or deleted.
    """
    # a queue is declared without a word on it, but a change is answered with all of its metadata
    metadata = f"CASE kind WHEN 'declare' THEN coalesce({_BODY}, '{{}}') WHEN 'update' THEN response_body END"
    return {
        "messages": F.expr(
            "CASE WHEN kind = 'post' THEN request.messages"
            " WHEN kind IN ('claim', 'pop') THEN CASE WHEN code = 204 THEN array() ELSE response.messages END END"
        ),
        "ids": F.expr(
            # the server reads no empty name in a list of them
            "CASE kind WHEN 'post' THEN response.resources"
            " WHEN 'delete' THEN filter(CASE WHEN item = '' AND startswith(query_map['ids'], '[') THEN"
            # a tap may write a list where the address has commas
            " split(array_join(from_json(query_map['ids'], 'array<string>'), ',', ''), ',')"
            " ELSE split(coalesce(nullif(item, ''), query_map['ids']), ',') END, id -> trim(id) != '') END"
        ),
        "metadata": F.expr(f"from_json({metadata}, 'map<string,string>')"),
        "pools": F.expr(
            "CASE WHEN kind = 'flavor' THEN from_json(coalesce(get_json_object(response_body, '$.pool_list'), "
            "get_json_object(request_body, '$.pool_list')), 'array<string>') END"
        ),
    }


def _terms() -> dict:
    """A claim's id and terms."""
    pop = "kind = 'pop'"
    first = "get(messages, 0)"
    limit = _number("nullif(query_map['limit'], '')", DEFAULT_CLAIM_LIMIT)
    return {
        "claim_id": F.expr(
            # a pop's claim is over at once; MongoDB's pops make none, and name the one that the message had before
            f"CASE WHEN {pop} THEN event_id WHEN kind = 'claim' THEN coalesce("
            f"nullif(regexp_extract({first}.href, 'claim_id=([^&]+)', 1), ''), {first}.claim_id) END"
        ),
        "claim_limit": F.expr(f"CASE WHEN {pop} THEN try_cast(query_map['pop'] AS bigint) ELSE {limit} END"),
        # a pop is a claim of one second that is settled and released at once
        "claim_ttl": F.expr(f"CASE WHEN {pop} THEN 1L ELSE {_number('request.ttl', DEFAULT_CLAIM_TTL)} END"),
        "claim_grace": F.expr(f"CASE WHEN {pop} THEN 0L ELSE {_number('request.grace', DEFAULT_CLAIM_GRACE)} END"),
    }


def _number(value: str, default: int) -> str:
    """SQL for a whole number: the default where it is not given, null where it does not read."""
    return f"coalesce(try_cast({value} AS bigint), CASE WHEN {value} IS NULL THEN {default}L END)"


def _messages(parsed: DataFrame) -> DataFrame:
    """Rows of :data:`~deadletter.parsing.facts.MESSAGE_FACT` plus ``system``, one for each message posted, granted or
    deleted.
    """
    moment = "'time', time, 'event_id', event_id"
    settled = f"named_struct({moment}, 'claim_id', {{}}, 'how', '{{}}')"
    fact = message_columns(
        queue="queue",
        message_id="CASE kind WHEN 'post' THEN substring_index(m.ids, '/', -1) WHEN 'delete' THEN trim(m.ids)"
        " ELSE m.messages.id END",
        created_at="CASE kind WHEN 'post' THEN time WHEN 'delete' THEN NULL"
        " ELSE time - make_dt_interval(0, 0, 0, try_cast(m.messages.age AS decimal(18,6))) END",
        posted=f"CASE kind WHEN 'post' THEN named_struct({moment}, 'position', position, 'ttl', coalesce(try_cast("
        f"m.messages.ttl AS bigint), CASE WHEN before_v2 THEN {DEFAULT_TTL}L END), 'delay', CASE WHEN before_v2 THEN 0L"
        f" ELSE {seconds('m.messages.delay')} END, 'producer', client_id) END",
        delivery=f"CASE WHEN kind IN ('claim', 'pop') THEN named_struct({moment}, 'claim_id', claim_id,"
        " 'consumer', client_id, 'broker_count', NULL, 'redelivered', NULL) END",
        settled=f"CASE kind WHEN 'pop' THEN {settled.format('claim_id', 'pop')}"
        f" WHEN 'delete' THEN {settled.format('deleted_with', 'delete')} END",
    )
    telling = parsed.where("size(reasons) = 0 AND kind IN ('post', 'claim', 'pop', 'delete')").withColumns(
        {name: F.coalesce(name, F.array().cast(parsed.schema[name].dataType)) for name in ("messages", "ids")}
    )
    common = ["system", "tenant", "queue", "kind", "time", "event_id", "client_id", "claim_id", "before_v2"]
    each = telling.select(
        *common,
        F.expr("query_map['claim_id']").alias("deleted_with"),
        F.expr("posexplode(arrays_zip(messages, ids))").alias("position", "m"),
    )
    return each.select("system", *fact)


def facts(parsed: DataFrame) -> Facts:
    """The facts of parsed exchanges; ``parsed`` is read several times, so it had better be staged."""
    common = {"system": "system", "tenant": "tenant", "queue": "queue"}
    term = "named_struct('time', time, 'event_id', event_id, 'ttl', claim_ttl, 'grace', claim_grace{})"
    grant = term.format(", 'consumer', client_id")
    moment = "named_struct('time', time, 'event_id', event_id)"
    claims = rows_of(
        parsed.where("NOT (kind IN ('claim', 'pop') AND size(messages) = 0)"),
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
            "granted": "size(messages)",
            "claim_id": "claim_id",
            "ttl": "claim_ttl",
            "grace": "claim_grace",
            "consumer": "client_id",
        },
    )
    return Facts(parsed, _messages(parsed), claims, attempts, _policies(parsed, common))


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
            # below 0 every claim is one too many, as with 0
            "max_deliveries": "CASE WHEN metadata['_max_claim_count'] IS NOT NULL THEN "
            f"least(greatest(CAST(metadata['_max_claim_count'] AS bigint), 0L), {MOST_DELIVERIES}L) END",
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
            "queue": f"'{tables.EVERY}'",
            "subscription": "''",
            "valid_from": "time",
            "event_id": "event_id",
            "kind": "kind",
            "default_delay": "0L",
            "attributes": "to_json(named_struct('flavor', flavor, 'pools', pools))",
        },
    )
