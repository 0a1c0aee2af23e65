"""Kafka topics as a source: what the same lines in a folder give, each record once, and clear words for faults."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deadletter import cli, steps, tables
from deadletter.errors import DeadletterError, UsageError
from deadletter.lake import Lake
from deadletter.sources import topics
from deadletter.spark import jars
from deadletter.steps import bronze
from tests.pipelines import kafka_broker
from tests.pipelines.comparing import GOLD, SILVER, assert_same_rows
from tests.pipelines.conftest import BUNDLED, lines_of, quiet

ROOT = Path(__file__).parents[2]
EMPTY = hashlib.sha256(b"").hexdigest()
TOPICS = {"zaqar": "taps", "rabbitmq": "fire.hose"}
LINES = {
    "zaqar": lines_of(BUNDLED / "zaqar" / "orders-a.jsonl.gz")[:1200],
    "rabbitmq": lines_of(BUNDLED / "rabbitmq" / "orders-a.jsonl.gz")[:900],
}
NOT_UTF8 = LINES["zaqar"][0].rstrip(b"\n").replace(b'"captured_at"', b'"caf\xe9": 1, "captured_at"')
TABLES = (tables.QUEUE_EVENTS, *SILVER, tables.QUARANTINE, *GOLD)
EARLY = 700
TWICE = 50


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    try:
        jars.kafka_jars()
        running = kafka_broker.start(tmp_path_factory.mktemp("broker"))
    except DeadletterError as missing:
        pytest.skip(str(missing))
    yield running
    running.stop()


def run(landing, lake):
    """``deadletter run`` in a process of its own: the session of the tests has no Kafka connector."""
    command = [sys.executable, "-m", "deadletter", "run", "--landing", landing, "--lake", str(lake), "--json"]
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'libs'}:{os.environ.get('PYTHONPATH', '')}"}
    env.pop("SPARK_REMOTE", None)
    env["DEADLETTER_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1"  # so little is over before more has paid
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def summary(done):
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def values(system, part):
    return [line.rstrip(b"\n") for line in LINES[system][part]]


@pytest.fixture(scope="module")
def fed(broker, tmp_path_factory):
    """A lake after two runs, what they told, and the records sent by then, as ``source_file`` of each."""
    broker.make(*TOPICS.values())
    base, sent = tmp_path_factory.mktemp("fed"), []
    landing = f"kafka://{broker.address}/{','.join('='.join(pair) for pair in TOPICS.items())}"

    def send(system, records):
        places = broker.send(TOPICS[system], records)
        sent.extend(f"kafka://{TOPICS[system]}/{partition}/{offset}" for partition, offset in places)

    told = []
    for part, odd in ((slice(EARLY), [NOT_UTF8, None]), (slice(EARLY - TWICE, None), [])):
        for system in TOPICS:
            send(system, values(system, part) + odd)
            odd = odd[1:]
        told.append(summary(run(landing, base / "lake")))
    return base / "lake", landing, told, sent


@pytest.fixture(scope="module")
def from_folder(spark, tmp_path_factory):
    """The lake of the same lines from a landing folder."""
    base = tmp_path_factory.mktemp("folder")
    for system, lines in LINES.items():
        (base / "landing" / system).mkdir(parents=True)
        odd = [NOT_UTF8 + b"\n"] if system == "zaqar" else []
        (base / "landing" / system / "all.jsonl").write_bytes(b"".join(lines + odd))
    lake = Lake(spark, str(base / "lake"))
    steps.run(lake, str(base / "landing"), tell=quiet)
    return lake


@pytest.mark.soak
def test_each_record_is_read_once(spark, fed):
    """Also the second run reads only what is new; a resend is a row of its own, and the same event."""
    root, _, (first, second), sent = fed
    rows = Lake(spark, str(root)).read(tables.QUEUE_EVENTS)
    assert sorted(row["source_file"] for row in rows.select("source_file").collect()) == sorted(sent)
    assert first["events_in"] == 2 * EARLY + 3
    assert first["events_quarantined"] == 3  # two tombstones, one line that is not UTF-8
    assert second["events_in"] == sum(map(len, LINES.values())) - 2 * EARLY + 2 * TWICE


@pytest.mark.soak
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.full_name)
def test_the_same_tables_as_from_a_folder(fed, from_folder, table):
    both = (Lake(from_folder.spark, str(fed[0])), from_folder)
    topic, folder = (lake.read(table).drop("source_file", "ingested_at") for lake in both)
    if "event_id" in table.key:
        topic = topic.where(f"event_id <> '{EMPTY}'").distinct()
        folder = folder.distinct()
    assert_same_rows(topic, folder)
    if table in (tables.QUEUE_EVENTS, tables.DEAD_LETTERS):
        assert folder.count() > 10


@pytest.mark.soak
def test_records_without_a_value_and_odd_bytes_are_in_quarantine(spark, fed):
    refused = Lake(spark, str(fed[0])).read(tables.QUARANTINE).select("event_id", "raw", "reasons").collect()
    found = {row["event_id"]: row["reasons"] for row in refused}
    assert found.keys() == {EMPTY, hashlib.sha256(NOT_UTF8).hexdigest()}
    assert "not_utf8" in str(found[hashlib.sha256(NOT_UTF8).hexdigest()])


def told(done, code):
    """The one line that a run which stopped says, without a stack trace."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("deadletter: ")]
    assert (done.returncode, len(lines)) == (code, 1), done.stderr[-3000:]
    assert "Traceback" not in done.stderr and "at org.apache" not in done.stderr
    return lines[0]


@pytest.mark.soak
def test_records_that_are_gone(broker, fed):
    """Kept too briefly: said, with the way on; nothing is passed over in silence."""
    root, landing, *_ = fed
    last = dict(broker.send(TOPICS["zaqar"], values("zaqar", slice(4))))
    broker.forget(TOPICS["zaqar"], last)
    said = told(run(landing, root), 1)
    assert "topic taps" in said and "no longer has records that were not read yet" in said
    (checkpoint,) = [source.checkpoint for source in topics.parse_address(landing) if source.name == "taps"]
    assert f"Remove _checkpoints/queue_events/{checkpoint}" in said
    assert (root / "_checkpoints" / "queue_events" / checkpoint).is_dir()


@pytest.mark.soak
def test_a_topic_that_is_not_there(broker, tmp_path):
    said = told(run(f"kafka://{broker.address}/zaqar=nowhere", tmp_path / "lake"), 2)
    assert f"there is no topic nowhere at {broker.address}. Make it" in said


@pytest.mark.parametrize("host", ["kafka..example.org", ".kafka", "k" * 64])
def test_a_name_that_no_host_has(host):
    assert not topics.answers(f"{host}:9092")


def test_nobody_answers(tmp_path, monkeypatch, capsys):
    """Told before Spark starts."""
    landing = f"kafka://127.0.0.1:{kafka_broker.free_port()}/zaqar=taps"
    monkeypatch.setattr(sys.modules["deadletter.cli.run"], "open_lake", lambda *_, **__: pytest.fail("Spark started"))
    monkeypatch.setattr("sys.argv", ["deadletter", "run", "--landing", landing, "--lake", str(tmp_path / "lake")])
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert done.value.code == 1
    assert "no Kafka broker answers at 127.0.0.1:" in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()


@pytest.mark.soak
def test_a_session_without_the_connector(spark, broker, tmp_path):
    """Sessions for folders do without its jars; where one is given topics all the same, it says what is missing."""
    with pytest.raises(DeadletterError, match="has no Kafka connector. Start it with --packages org.apache.spark:"):
        found = topics.parse_address(f"kafka://{broker.address}/zaqar=taps")
        bronze.ingest(Lake(spark, str(tmp_path / "lake")), found, quiet)


@pytest.mark.parametrize(
    ("landing", "said"),
    [
        ("kafka://host/zaqar=taps", "write kafka://HOST:PORT"),
        ("kafka://host:9092", "write kafka://HOST:PORT"),
        ("kafka://host:9092/zaqar=", "write kafka://HOST:PORT"),
        ("kafka://host:9092/zaqar=a b", "write kafka://HOST:PORT"),
        ("kafka://host:9092/taps", "write kafka://HOST:PORT"),
        ("kafka://host:9092/sqs=taps", "'sqs' is none of zaqar, rabbitmq, pulsar"),
    ],
)
def test_an_address_of_another_form(landing, said):
    with pytest.raises(UsageError, match=said):
        topics.parse_address(landing)


def test_client_properties(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text('# who we are\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=Login required \\\n  user="a=b";\n')
    (topic,) = topics.parse_address(f"kafka://[::1]:9092/zaqar=taps?config={file}")
    options = topic.options()
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.jaas.config"] == 'Login required user="a=b";'
    assert options["kafka.bootstrap.servers"] == "[::1]:9092"
    with pytest.raises(UsageError, match="Kafka's client properties"):
        topics.read_config(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "line",
    [
        "sasl.mechanism=PLAIN",
        "sasl.mechanism: PLAIN",
        "sasl.mechanism PLAIN",
        " sasl.mechanism\t=  PLAIN",
        "a:\nsasl.mechanism:PLAIN",
    ],
)
def test_client_properties_are_separated_as_java_does(tmp_path, line):
    (tmp_path / "client.properties").write_text(f"! a: comment\n{line}\nssl.key.password=a:b =c\nempty\n")
    read = topics.read_config(str(tmp_path / "client.properties"))
    assert read["sasl.mechanism"] == "PLAIN"
    assert read["ssl.key.password"] == "a:b =c"
    assert read["empty"] == ""  # to Java, too


def test_a_line_that_names_no_client_property(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("a=b \\\n  c\n\n = secret\n")
    with pytest.raises(UsageError, match=f"cannot read {file}: line 4 names no property. Write key=value.$"):
        topics.read_config(str(file))
