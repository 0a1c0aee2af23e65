"""What the brokers' documents say: as column rules, and in plain Python where events are replayed one by one. Zaqar's
stores have habits that go beyond the documents. ``policy`` and ``limits`` are of all brokers, the other modules of the
one that they are named after."""
