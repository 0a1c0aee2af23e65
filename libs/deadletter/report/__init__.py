"""The report: one HTML page that opens offline. ``queries`` asks the tables, ``page`` writes it."""
