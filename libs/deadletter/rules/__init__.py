"""What the brokers' documents say, as column rules, and the one store whose habits go beyond them."""
