"""Who answers requests: this process or worker processes; nothing is imported here."""
