"""Ctrl-C ends a command at once, whatever it is at: one line, code 130, and nothing of it stays. Without Spark."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest
from py4j.protocol import Py4JNetworkError

from deadletter import cli
from deadletter.spark import jvm, parallel

TOLD = "deadletter: interrupted; start the command again: what was written before is whole\n"
JAVA = """#!/bin/bash
case "$*" in
  *-version*) echo 'openjdk version "17.0.1"' >&2 ;;
  *launcher.Main*) printf '\\0\\n%s\\0' "$0" jvm ;;
  *) echo $$ > "$STARTED.new" && mv "$STARTED.new" "$STARTED"; exec sleep 600 ;;
esac
"""
"""A Java that never answers, and does not look whether anybody is there."""


@pytest.fixture(autouse=True)
def somebody_may_interrupt():
    """What a shell starts in the background ignores the key, and so does all that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def wait_for(path):
    end = time.monotonic() + 180
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    return path.read_text()


def is_there(process):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def test_while_spark_starts(tmp_path):
    """The whole process group gets the signal, as from a terminal."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    started = tmp_path / "started"
    own = os.environ | {"JAVA_HOME": str(tmp_path / "jdk"), "STARTED": str(started), "TMPDIR": str(tmp_path)}
    called = [sys.executable, "-m", "deadletter", "report", "--lake", "lake", "--out", "out"]
    process = subprocess.Popen(called, env=own, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    jvm = int(wait_for(started))
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=90)[1] == TOLD
    assert process.returncode == 130
    assert not is_there(jvm) and not list(tmp_path.glob("deadletter-spark-*"))


def interrupted(fail, monkeypatch, capsys):
    """How a command ends that is interrupted and then fails so."""

    def called(*_):
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        fail()

    monkeypatch.setattr(sys.modules["deadletter.cli.patterns"], "_of_lake", called)
    monkeypatch.setattr("sys.argv", ["deadletter", "patterns", "list", "--lake", "x"])
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert signal.getsignal(signal.SIGINT) == before
    return done.value.code, capsys.readouterr().err


def test_what_fails_after_it_is_not_told(monkeypatch, capsys):
    """The JVM that is gone, say: nobody is told to give it more memory."""

    def fail():
        raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr(jvm.Jvm, "started", [])
    assert interrupted(fail, monkeypatch, capsys) == (130, TOLD)
    assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR), "it logs the JVM that is gone"


def test_a_process_that_starts_is_known_before_it_ends(monkeypatch):
    """A signal that comes in between waits."""
    monkeypatch.setattr(jvm.Jvm, "started", [])
    with pytest.raises(KeyboardInterrupt), jvm.interrupts_put_off():
        os.kill(os.getpid(), signal.SIGINT)
        child = jvm.Jvm(["sleep", "600"])
    assert jvm.Jvm.started == [child]
    jvm.end_jvm()
    jvm.wait_for_jvm()
    assert child.returncode == -signal.SIGTERM
    monkeypatch.setattr(jvm.Jvm, "ending", False)


def test_nothing_goes_on_when_calls_at_once_are_interrupted(monkeypatch):
    """What runs is stopped and waited for; what waits for its turn never begins, also in a call that makes several."""
    begun, stopped, done, others = [], threading.Event(), [], []

    @contextlib.contextmanager
    def stopping():
        stopped.set()
        yield

    monkeypatch.setattr(parallel, "queries_interrupted", stopping)

    def query(name):
        begun.append(name)
        if len(begun) == parallel.AT_ONCE + parallel.AT_ONCE - 1:
            os.kill(os.getpid(), signal.SIGINT)
        assert stopped.wait(60)
        time.sleep(0.2)
        done.append(name)

    calls = [lambda: parallel.together([partial(query, f"inner {n}") for n in range(9)])]
    calls += [partial(query, f"outer {n}") for n in range(9)]
    with pytest.raises(KeyboardInterrupt):
        parallel.together(calls)
    assert sorted(done) == [*(f"inner {n}" for n in range(4)), *(f"outer {n}" for n in range(3))]
    assert parallel.together([lambda: others.append(1)]) == [None] and others == [1]


def test_an_error_in_what_is_to_be_called_is_no_interrupt(monkeypatch):
    monkeypatch.setattr(parallel, "queries_interrupted", lambda: pytest.fail("nobody interrupts"))
    with pytest.raises(ZeroDivisionError):
        parallel.together(partial(print, 1 / n) for n in (1, 0))
    assert parallel.together([lambda: 1]) == [1]


class Server:
    """A session of Spark Connect that counts how often its queries were interrupted."""

    interrupted = 0

    def interruptAll(self):
        self.interrupted += 1
        raise ConnectionError


def test_a_server_is_asked_to_stop_until_all_have_ended(monkeypatch):
    server = Server()
    monkeypatch.setattr(jvm.Jvm, "ending", False)
    monkeypatch.setattr(jvm.SparkSession, "getActiveSession", lambda: server)
    with jvm.queries_interrupted():
        until = time.monotonic() + 60
        while server.interrupted < 2 and time.monotonic() < until:
            time.sleep(0.1)
    asked = server.interrupted
    assert asked >= 2
    monkeypatch.setattr(jvm.Jvm, "ending", True)
    with jvm.queries_interrupted():
        pass
    assert server.interrupted == asked
