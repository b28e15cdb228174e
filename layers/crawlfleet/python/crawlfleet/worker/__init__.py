"""The engine of the consumer: leases, attempts, results, heartbeat."""
