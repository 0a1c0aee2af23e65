"""Facts to silver tables: pure functions from DataFrame to DataFrame."""
