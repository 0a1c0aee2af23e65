"""The command ``deadletter``."""

from __future__ import annotations

import sys
import traceback
from io import TextIOWrapper

import click

from deadletter import __version__
from deadletter.cli.early import interrupt_told, streams_opened

streams_opened()  # before any import opens a file
with interrupt_told():
    from deadletter.cli.cluster import cluster
    from deadletter.cli.common import say
    from deadletter.cli.dashboard import dashboard
    from deadletter.cli.demo import demo
    from deadletter.cli.explain import explain
    from deadletter.cli.failing import Commands, debugging, failure, quiet_bridge
    from deadletter.cli.maintain import maintain_command
    from deadletter.cli.notebook import notebook
    from deadletter.cli.patterns import patterns
    from deadletter.cli.preview import preview
    from deadletter.cli.quarantine import quarantine
    from deadletter.cli.report import report
    from deadletter.cli.run import run
    from deadletter.cli.show import show


@click.group(
    cls=Commands,
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a data quality gate stopped the run, "
    "4 another run is at work on the lake, 130 interrupted. With DEADLETTER_DEBUG=1 in the environment an error is "
    "told with its whole stack trace.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="deadletter")
def cli() -> None:
    """Dead Letter Office: which messages of your queues are dead, why, and what they have in common.

    Feed it the raw events of Zaqar, RabbitMQ and Pulsar; it keeps the exact state of every message.

    \b
    Start with:  deadletter demo
    Then:        deadletter run --landing DIR --lake DIR
                 deadletter report --lake DIR --out DIR
                 deadletter show dead_letters --lake DIR
                 deadletter explain MESSAGE_ID --lake DIR
    """


COMMANDS = (
    *(run, show, explain, report, dashboard, notebook),
    *(patterns, preview, quarantine, cluster, maintain_command, demo),
)
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command; an error a person can act on becomes one message and its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal's encoding has all characters
    if not debugging():
        quiet_bridge()
    try:
        cli(standalone_mode=True)
    except Exception as error:
        told = failure(error)
        if told is None:
            raise
        if debugging():
            traceback.print_exception(error)
        say(f"deadletter: {told}", err=True)
        sys.exit(told.exit_code)
