"""What the brokers' documents say, as column rules, and the stores whose habits go beyond them."""
