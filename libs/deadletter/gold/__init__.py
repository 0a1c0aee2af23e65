"""Facts, policies and ``as_of`` to gold tables: pure functions from DataFrame to DataFrame."""
