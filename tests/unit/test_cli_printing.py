"""What commands print for people, and how they end where something outside of them fails. Without Spark."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from deadletter import cli, tables
from deadletter.cli.common import condition_told, print_table
from deadletter.cli.explain import print_life
from deadletter.cli.patterns import print_pattern
from deadletter.cli.preview import print_limit
from deadletter.cli.quarantine import _print_copies, _print_reasons
from deadletter.cli.show import print_records, print_rows
from deadletter.errors import UsageError
from deadletter.explain.timeline import Life, Moment

NASTY = "paid \x1b[2J\x9b1m\r \u202egro"
SHOWN = r"paid \x1b[2J\x9b1m\x0d \u202egro"
LIMIT = dict.fromkeys(
    ("limit", "deliveries_allowed", "messages_saved", "false_deaths", "deaths_earlier", "claims_saved"), 1
) | dict.fromkeys(("deaths_unchanged", "deaths_put_off", "deaths_outcome_unknown", "at_limit"), 1)
LIMIT |= {"saved_not_known": 0, "deaths_of_lost": 1}
PATTERN = dict.fromkeys(("pattern_id", "first_seen", "last_seen", "kind", "status"), "p") | {
    "template": NASTY,
    "muted": False,
    "dead_letters": 1,
    "queues": ["zaqar p/orders"],
    "differences": [],
    "concentrated_in": [],
    "trend": [],
    "example": {"message_id": "m", "system": "zaqar", "tenant": "p", "queue": "orders", "subscription": ""},
    "example_payload": NASTY,
    "example_error": NASTY,
    "decisions": [
        {
            "decided_at": datetime(2026, 11, 20, tzinfo=UTC),
            "action": "mute",
            "decided_by": "ann",
            "why": NASTY,
            "target": f"{NASTY} then",
        }
    ],
}


def test_no_control_character_reaches_the_terminal(monkeypatch, capsys):
    death = {"reason": "expired", "queue": "q", "error": NASTY, "evidence": "observed", "event_id": "e", "cause": "ttl"}
    death |= {"dead_lettered_at": "2026-11-20T20:53:01.000000+00:00", "dead_letter_queue": NASTY}
    death |= dict.fromkeys(("claim_count", "max_deliveries", "removed_at", "expires_at", "pattern_id"))
    death |= {"dead_letter_message_id": None, "system": "pulsar", "tenant": "t", "subscription": "s"}
    moment = Moment(datetime(2026, 11, 20, tzinfo=UTC), "q", NASTY, "e")
    record = json.dumps({f"c{n}": NASTY for n in range(9)})
    prints = {
        "a table": lambda: print_table(("what",), [(NASTY,)], "T"),
        "rows one below the other": lambda: print_rows(iter([record]), tables.DEAD_LETTERS, list(json.loads(record))),
        "patterns list": lambda: CliRunner().invoke(cli.cli, ["patterns", "list", "--lake", "x"]),
        "quarantine list": lambda: _print_reasons([{"system": "x", "reason": NASTY, "events": 1, "example": "e"}]),
        "quarantine show": lambda: _print_copies([{"system": "x", "source_file": NASTY, "taken": "t"}]),
        "explain": lambda: print_life(Life("m", moment.time, [moment], [], [death]), {}),
        "patterns show": lambda: print_pattern(PATTERN | {"former_ids": []}),
        "preview": lambda: print_limit(
            LIMIT | {"by_pattern": [], "survival": [], "recommended": {"limit": 1, "reason": NASTY}}
        ),
    }
    monkeypatch.setattr(sys.modules["deadletter.cli.patterns"], "_of_lake", lambda *_: [PATTERN])
    for what, shown in prints.items():
        done = shown()
        told = done.stdout if done else capsys.readouterr().out
        assert SHOWN in told and not set("\x1b\x9b\r\u202e") & set(told), what
        assert (what == "patterns show") == ("(it was then: " in told), what


def test_a_life_says_as_of_when(capsys):
    print_life(Life("m", datetime(2026, 11, 20, 22, tzinfo=UTC), [], [], []), {})
    assert "as of 2026-11-20T22:00:00.000000 UTC" in capsys.readouterr().out


def test_a_life_says_whose_dead_letter_it_is(capsys):
    for origin in (None, "3:0:-1"):
        print_life(Life("11:0:-1", datetime(2026, 11, 20, 22, tzinfo=UTC), [], [], [], origin), {})
        assert ("the dead letter of 3:0:-1:" in capsys.readouterr().out) == bool(origin)


def test_an_error_of_several_lines_looks_like_no_other_moment(capsys):
    at = datetime(2026, 11, 20, 22, tzinfo=UTC)
    print_life(Life("m", at, [Moment(at, "q\n  2026", "failed\n  2026-11-20 22:00:01  q  settled", "e")], [], []), {})
    print_records([{"error": "Traceback\nevidence  observed"}], ["error"])
    assert len(capsys.readouterr().out.splitlines()) == 3 + 2


def test_a_life_says_where(capsys):
    """Two subscriptions' deaths, and the same id in two vhosts, are told apart; a death may be known to the second."""
    at = datetime(2026, 11, 20, 22, tzinfo=UTC)
    where = {"system": "pulsar", "tenant": "t", "queue": "q", "subscription": "s"}
    death = where | {"dead_lettered_at": "2026-11-20T22:00:00.000000+00:00", "reason": "x", "evidence": "observed"}
    known = ("cause", "claim_count", "max_deliveries", "removed_at", "expires_at", "pattern_id", "error", "event_id")
    death |= dict.fromkeys((*known, "dead_letter_queue", "dead_letter_message_id"))
    moments = [Moment(at.replace(microsecond=microsecond), "q", "x", None) for microsecond in (7, 0)]
    print_life(Life("m", at, moments, [where | {"status": "available", "claims_granted": 0}], [death]), {})
    told = capsys.readouterr().out
    assert "  2026-11-20 22:00:00.000007  q  x\n  2026-11-20 22:00:00         q  x\n" in told
    assert "Status in pulsar t/q s: available" in told and "Died 2026-11-20 22:00:00 in pulsar t/q s: x" in told


@pytest.mark.parametrize(("cause", "told"), [("ttl", "TTL ran out\n"), ("delivery_limit", "delivered more often than")])
def test_a_death_has_one_rule(cause, told, capsys):
    """RabbitMQ's word is ``expired`` for a TTL and for a classic queue's limit: which it was may be known."""
    names = [*tables.DEAD_LETTERS.column_names, "subscription"]
    death = dict.fromkeys(names, "x") | {"reason": "expired", "cause": cause, "deviation": None, "claim_count": 4}
    print_life(Life("m", datetime(2026, 11, 20, 22, tzinfo=UTC), [], [], [death]), {})
    shown = capsys.readouterr().out
    assert told in shown and ("TTL" in shown) == (cause == "ttl")


@pytest.mark.parametrize("fault", ["No space left on device", "java.lang.OutOfMemoryError: Java heap space"])
def test_what_the_machine_lacks_is_no_fault_of_a_condition(fault):
    with pytest.raises(PySparkException, match=fault), condition_told("queue = 'orders'"):
        raise PySparkException(fault)
    with (
        pytest.raises(UsageError, match="--where queue = 'orders': Unclosed group"),
        condition_told("queue = 'orders'"),
    ):
        raise PySparkException("Unclosed group near index 1")


def test_a_share_says_of_whom(capsys):
    """A member that names no host is not counted in a share of hosts."""
    row = {"what": "host", "value": "web-1", "dead_letters": 8, "share": 1.0, "expected_share": 0.25, "lift": 4.0}
    print_pattern(PATTERN | {"former_ids": [], "concentrated_in": [row]})
    told = "host web-1: 8 dead letters, 100% of those that name one, 25% expected, 4.0 times as often"
    assert told in capsys.readouterr().out


def test_a_list_that_is_cut_says_so(capsys):
    print_pattern(PATTERN | {"former_ids": [f"id{n:03}" for n in range(30)]})
    told = capsys.readouterr()
    assert "id019" in told.out and "id020" not in told.out
    assert "first 20 of 30 former ids; --json shows all" in told.err
    _print_copies([{"system": "x", "source_file": f"f{n}.jsonl", "taken": "t"} for n in range(11)])
    told = capsys.readouterr()
    assert "f9.jsonl" in told.out and "f10.jsonl" not in told.out and told.err.startswith("first 10 copies; ")
    names = ("delivery", "reached", "settled", "censored", "unsettled", "low", "high")
    points = [dict.fromkeys(names, n) for n in range(60)]
    print_limit(LIMIT | {"by_pattern": [], "survival": points, "recommended": {"limit": 1, "reason": "x"}})
    told = capsys.readouterr()
    assert " 49 " in told.out and " 50 " not in told.out
    assert told.err == "first 50 of 60 rows; --json shows all\n"


@pytest.mark.parametrize("option", [["--all"], ["--status", "new"]], ids=" ".join)
def test_an_old_run_is_shown_whole(option, tmp_path):
    done = CliRunner().invoke(cli.cli, ["patterns", "list", "--run", "r", *option, "--lake", str(tmp_path)])
    assert isinstance(done.exception, UsageError) and "--run shows all that the run saw" in str(done.exception)


def test_a_status_that_there_is_not(tmp_path):
    done = CliRunner().invoke(cli.cli, ["patterns", "list", "--status", "old", "--lake", str(tmp_path)])
    assert done.exit_code == 2 and "'regressed'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "dead_letters", "--limit", str(2**31)], "'--limit'"),
        (["preview", "--system", "zaqar", "--queue", "q", "--delay", str(10**14)], "'--delay'"),
        (["run", "--landing", "{lake}", "--fresh-after", ""], "--fresh-after : not an ISO 8601 time"),
        (["patterns", "show", ""], "'PATTERN' is empty: give the id"),
        (["patterns", "merge", "p1", "--into", "", "--by", "ann", "--why", "x"], "'--into' is empty: give the id"),
        (["explain", " "], "'MESSAGE_ID' is empty: give the id"),
        (["show", "dead_letters", "--where", ""], "'--where' is empty: give the condition"),
        (["quarantine", "list", "--where", " "], "'--where' is empty: give the condition"),
        (["report", "--out", ""], "'--out' is empty: give the path"),
        (["dashboard", "--out", ""], "'--out' is empty: give the path"),
        (["quarantine", "show", ""], "'EVENT_ID' is empty: give the id"),
        (["quarantine", "discard", "0123456789", "--why", "x"], "give one with --by WHO"),
        (["quarantine", "discard", "0123456789", "--why", ""], "'--why' is empty: give the reason"),
        (["quarantine", "discard", "0123456789", "--by", "", "--why", "x"], "'--by' is empty: give the name"),
        (["patterns", "mute", "p1", "--by", " ", "--why", "x"], "'--by' is empty: give the name"),
        (["preview", "--system", "zaqar", "--queue", "", "--limit", "1"], "'--queue' is empty: give the queue"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_what_no_run_can_mean(arguments, told, monkeypatch, capsys, tmp_path):
    """An empty text is what a shell hands on of a command that failed; a container's user may have no name."""

    def nobody():
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr("getpass.getuser", nobody)
    given = [argument.format(lake=tmp_path) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["deadletter", *given, "--lake", str(tmp_path)])
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert done.value.code == 2 and told in capsys.readouterr().err


def ended(error, monkeypatch, capsys):
    """The exit code and the line of a command that fails so."""

    def fail(**_):
        raise error

    monkeypatch.setattr(cli, "cli", fail)
    with pytest.raises(SystemExit) as done:
        cli.main()
    return done.value.code, capsys.readouterr().err


ENDED = "Spark ended: out of memory? set DEADLETTER_DRIVER_MEMORY"
WORKER = "Aborted: Traceback (most recent call last):\n  File x\nKeyError: 'y'\n\n\tat a.B.c(D)"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Py4JNetworkError("Answer from Java side is empty"), ENDED),
        (Py4JError("An error occurred while calling o76.collectToPython"), ENDED),
        (ConnectionRefusedError(111, "Connection refused"), ENDED),
        (PySparkException("Aborted: java.lang.OutOfMemoryError: Java heap space"), ENDED),
        (PermissionError(13, "Permission denied", "/lake/gold"), "/lake/gold: Permission denied; give this user acc"),
        (OSError(28, "No space left on device", "/lake"), "/lake: No space left on device; make room there"),
        (OSError(5, "Input/output error"), "Input/output error; DEADLETTER_DEBUG=1 tells where it happened"),
        (PySparkException(WORKER), "KeyError: 'y'"),
        (PySparkException("\x1b[2J"), r"\x1b[2J"),
    ],
    ids=lambda given: given[:20] if isinstance(given, str) else type(given).__name__,
)
def test_what_fails_outside_is_one_line(error, told, monkeypatch, capsys):
    code, said = ended(error, monkeypatch, capsys)
    assert code == 1 and said.startswith(f"deadletter: {told}") and said.count("\n") == 1


def test_a_stack_trace_where_it_is_asked_for_or_helps(monkeypatch, capsys):
    with pytest.raises(KeyError):
        ended(KeyError("x"), monkeypatch, capsys)
    with pytest.raises(Py4JError):  # the JVM is there, and this is no fault of a person
        ended(Py4JError("calling o1.x. Trace:\npy4j.Py4JException: Method x does not exist"), monkeypatch, capsys)
    monkeypatch.setenv("DEADLETTER_DEBUG", "1")
    code, said = ended(UsageError("x"), monkeypatch, capsys)
    assert code == 2 and "Traceback" in said and said.endswith("deadletter: x\n")


@pytest.fixture
def unread():
    """The end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("command", ["--help", "run --help", "cluster a.log --out out.csv"])
def test_a_reader_who_has_seen_enough(command, unread, tmp_path):
    (tmp_path / "a.log").write_text("one\n")
    called = [sys.executable, "-m", "deadletter", *command.split()]
    done = subprocess.run(called, stdout=unread, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_caller_that_closed_a_stream(closed, tmp_path):
    """What supervisors and alarms start need not have all three."""
    told = tmp_path / "told"
    line = f'"{sys.executable}" -m deadletter --version {closed}'
    done = subprocess.run(["bash", "-c", line], stdout=told.open("w"), stderr=subprocess.STDOUT, check=False)
    assert (done.returncode, "version" in told.read_text()) == (0, ">" not in closed.replace("2>", ""))


ROWS = """
import sys, click
from deadletter import cli, tables
from deadletter.cli.show import print_csv, print_rows
cli.cli.add_command(click.command("x")(lambda: {print}(iter(['{{"a": 1}}']), tables.CLAIMS, ["a"])))
sys.argv[1:] = ["x"]
cli.main()
"""


@pytest.mark.parametrize("print_", ["print_rows", "print_csv"])
def test_rows_that_nobody_reads_any_more(print_, unread):
    """A table is drawn by Rich, CSV is written at the end."""
    called = [sys.executable, "-c", ROWS.format(print=print_)]
    done = subprocess.run(called, stdout=unread, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_work_goes_on_where_nobody_reads_of_it(unread):
    program = "from deadletter.cli.common import teller; tell = teller(); tell('a'); tell('b'); print('done')"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=unread, check=False)
    assert (done.returncode, done.stdout) == (0, b"done\n")
