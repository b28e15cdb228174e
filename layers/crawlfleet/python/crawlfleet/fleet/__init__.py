"""The fleet: registry, failure detector, autoscaler, forecast."""
