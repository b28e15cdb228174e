"""MongoDB, the truth (DESIGN.md 1): requests and records in shards, rules and schedules at home."""
