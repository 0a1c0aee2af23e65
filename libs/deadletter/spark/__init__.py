"""What Spark is asked for in words of its own: a session, columns, SQL text, frames that are kept, work at once."""
