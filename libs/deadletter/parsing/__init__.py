"""Raw events to facts: one module a broker, each from ``bronze.queue_events`` rows to :class:`Facts`."""
