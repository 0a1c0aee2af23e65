"""What the report, the dashboard and notebooks are made of: ``html`` has tables and notes, ``charts`` draws, ``rows``
asks for what is shown and names queues for people."""
