"""Why a message is where it is: ``moments`` are what happened to it, ``timeline`` tells the rules behind it."""
