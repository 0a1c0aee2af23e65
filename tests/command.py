"""The command as a user calls it, in this process."""

from click.testing import CliRunner

from deadletter.cli import cli


def call(*arguments):
    """What ``deadletter`` told; an error that the command raises is raised here, its exit is not."""
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done
