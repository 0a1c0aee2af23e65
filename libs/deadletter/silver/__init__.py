"""Facts to silver tables: functions from DataFrame to DataFrame. ``state`` joins the facts of a message and of a claim,
``days`` finds the days of messages whose creation another batch told, ``changes`` tells which queues a batch is about,
``quarantine`` holds what is refused and what people decided, ``reconcile`` proves that nothing is lost."""
