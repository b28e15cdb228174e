"""Submission: admission, back-pressure, idempotency keys, tracking."""
