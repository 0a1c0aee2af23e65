"""The taps write what the captures have: each captured event is told to them as its broker tells it."""

import gzip
import io
import json
import re
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pika
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
CAPTURES = Path(__file__).parents[2] / "libs" / "deadletter" / "captures"


@pytest.fixture(scope="module", autouse=True)
def on_the_path():
    """They import each other by their files' names, as where they are put."""
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


def captured(system):
    for path in sorted((CAPTURES / system).rglob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def written(folder):
    return [json.loads(line) for path in sorted(folder.glob("[!.]*.jsonl")) for line in path.read_text().splitlines()]


def without_time(event):
    datetime.fromisoformat(event["captured_at"])
    return event | {"captured_at": None}


def ask(app, event, escaped=False):
    """Ask a WSGI application as a client of Zaqar's asked; with commas ``escaped``, as many HTTP clients do."""
    body = b"" if event["request_body"] is None else json.dumps(event["request_body"]).encode()
    environ = {
        "REQUEST_METHOD": event["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": event["path"].encode().decode("latin-1"),
        "QUERY_STRING": urlencode(event["query"] or {}, safe="" if escaped else ","),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_X_PROJECT_ID": event["project_id"],
        "HTTP_CLIENT_ID": event["client_id"],
        "wsgi.input": io.BytesIO(body),
    }
    setup_testing_defaults(environ)
    answer = app(environ, lambda status, headers, *_: None)
    told = b"".join(answer)
    getattr(answer, "close", lambda: None)()
    return told


def answering(event):
    """The server, as it answered then."""

    def app(environ, start_response):
        asked = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        assert (json.loads(asked) if asked else None) == event["request_body"]
        body = b"" if event["response_body"] is None else json.dumps(event["response_body"]).encode()
        start_response(f"{event['status']} told", [("Content-Type", "application/json")] if body else [])
        return [body]

    return app


def test_zaqars_exchanges_are_written_as_they_were_captured(tmp_path):
    from spool import Spool
    from zaqar_tap import Tap

    events, spool = list(captured("zaqar")), Spool(tmp_path, 3600)
    for event in events:
        told = ask(Tap(answering(event), spool), event)
        assert (json.loads(told) if told else None) == event["response_body"]
    assert not written(tmp_path)
    spool.close()
    assert list(map(without_time, written(tmp_path))) == list(map(without_time, events))


def test_the_middleware_keeps_to_wsgi(tmp_path):
    from spool import Spool
    from zaqar_tap import Tap

    event = next(event for event in captured("zaqar") if event["response_body"])
    assert ask(validator(Tap(answering(event), Spool(tmp_path))), event)


@pytest.mark.parametrize(
    "change", [{"path": "/v2/health"}, {"query": {"ids": "a,b"}}], ids=["another path", "escaped commas"]
)
def test_what_says_nothing_of_a_queue_is_left_out(tmp_path, change):
    from spool import Spool
    from zaqar_tap import Tap

    event = next(captured("zaqar")) | change
    spool = Spool(tmp_path)
    ask(Tap(answering(event), spool), event, escaped=True)
    spool.close()
    assert not written(tmp_path)


BROKEN = {
    "no JSON": {"wsgi.input": io.BytesIO(b"{half"), "CONTENT_LENGTH": "5"},
    "no UTF-8": {"wsgi.input": io.BytesIO(b"\xff"), "CONTENT_LENGTH": "1"},
    "half a character": {"wsgi.input": io.BytesIO(b'"\\ud800"'), "CONTENT_LENGTH": "8"},
    "no length": {"CONTENT_LENGTH": "many"},
    "a path that is no UTF-8": {"PATH_INFO": "/v2/queues/\xff"},
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_client_gets_its_answer_whatever_it_asked(tmp_path, what):
    from spool import Spool
    from zaqar_tap import Tap

    def refusing(environ, start_response):
        start_response("400 Bad Request", [])
        yield b"<no JSON>"

    spool, said = Spool(tmp_path), []
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v2/queues/q/messages"} | BROKEN[what]
    assert list(Tap(refusing, spool)(environ, lambda status, headers: said.append(status))) == [b"<no JSON>"]
    assert said == ["400 Bad Request"]
    spool.close()
    assert all((event["status"], event["response_body"]) == (400, None) for event in written(tmp_path))


def test_the_client_gets_its_answer_where_nothing_can_be_written(tmp_path):
    from spool import Spool
    from zaqar_tap import Tap

    event, spool = next(captured("zaqar")), Spool(tmp_path)
    tmp_path.rmdir()
    ask(Tap(answering(event), spool), event)
    assert not tmp_path.exists()


def test_a_list_of_ids_can_be_of_several_parts():
    from zaqar_tap import exchange

    environ = {"REQUEST_METHOD": "DELETE", "PATH_INFO": "/v2/queues/q/messages", "QUERY_STRING": "ids=a&ids=b%2Fc"}
    assert exchange(environ, b"", 204, b"")["query"] == {"ids": "a,b/c"}


def over_the_wire(event):
    """What a client of RabbitMQ gets: encoded and decoded as AMQP has it, times among it."""

    def typed(value):
        if isinstance(value, dict):
            return {key: datetime.fromisoformat(each) if key == "time" else typed(each) for key, each in value.items()}
        return [typed(each) for each in value] if isinstance(value, list) else value

    sent = pika.BasicProperties(**(event["properties"] | {"headers": typed(event["properties"]["headers"])}))
    return pika.BasicProperties().decode(b"".join(sent.encode()))


def test_rabbitmqs_messages_are_written_as_they_were_captured():
    from rabbitmq_tap import event_of

    events = [event for event in captured("rabbitmq") if event["surface"] != "consumer"]
    assert any("x-death" in json.dumps(event) for event in events)
    for event in events:
        method = pika.spec.Basic.Deliver("c", 1, event["redelivered"], event["exchange"], event["routing_key"])
        told = event_of(method, over_the_wire(event), event["payload"].encode())
        assert without_time(told) == without_time(event)


def test_a_consumers_outcome_is_written_as_the_documents_have_it():
    from rabbitmq_tap import outcome_of

    told = (CAPTURES.parents[2] / "docs" / "events.md").read_text()
    (example,) = [
        json.loads(text)
        for text in re.findall(r"```json\n(.*?)```", told, re.DOTALL)
        if text.count("captured_at") == 1 and '"surface": "consumer"' in text
    ]
    worker, properties = example["properties"]["headers"]["connection"], pika.BasicProperties(message_id="a052e8ee")
    event = outcome_of("requeue", "orders", "/", worker, properties, b"{}", KeyError("amount"))
    assert without_time(event) == without_time(example)


def test_a_payload_that_is_no_text_is_base64():
    from rabbitmq_tap import plain, text

    assert (text(b"\xff\x00"), plain({"k": [b"a", b"\xff"]})) == ("/wA=", {"k": ["a", "/w=="]})


def test_a_spool_shows_whole_files_and_what_a_killed_tap_left(tmp_path):
    from spool import Spool

    (tmp_path / ".tap-left.jsonl").write_text('{"n": 0}\n')
    spool = Spool(tmp_path)
    spool.write({"n": 1})
    other = Spool(tmp_path)  # another process' file stays hidden while that is at work
    assert [event["n"] for event in written(tmp_path)] == [0]
    spool.show()
    spool.write({"n": 2})
    spool.close()
    other.close()
    assert sorted(event["n"] for event in written(tmp_path)) == [0, 1, 2]
    assert not list(tmp_path.glob(".*"))


def test_a_spool_shows_by_itself_what_is_old(tmp_path):
    from spool import Spool

    spool = Spool(tmp_path, 0.05)
    spool.write({"n": 1})
    for _ in range(200):
        if written(tmp_path):
            break
        time.sleep(0.05)
    assert written(tmp_path) == [{"n": 1}]
    spool.close()


def test_a_process_that_forks_writes_a_file_of_its_own(tmp_path):
    """As servers do, which load the application first."""
    program = (
        "import os, sys; from spool import Spool; spool = Spool(sys.argv[1]); spool.write({'n': 0})\n"
        "child = os.fork(); spool.write({'n': 1 if child else 2})\n"
        "if child: os.waitpid(child, 0)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=EXAMPLES, check=True)
    assert sorted(event["n"] for event in written(tmp_path)) == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 2
