"""Raw lines to bronze: functions from DataFrame to DataFrame. ``events`` makes the rows of ``bronze.queue_events``."""
