"""``python -m deadletter`` is the command ``deadletter``."""

from deadletter.cli import main

main()
