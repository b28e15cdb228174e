"""The outbox of delivery on the home node: items, deliveries, receivers."""
