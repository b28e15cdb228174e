"""Connections to MongoDB, their transactions and their faults."""
