"""Why a message is where it is: what happened to it, and the rule behind each verdict."""
