"""Monitoring: samples, metrics, the view of the fleet."""
