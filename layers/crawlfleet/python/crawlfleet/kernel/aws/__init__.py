"""Clients of AWS and their faults."""
