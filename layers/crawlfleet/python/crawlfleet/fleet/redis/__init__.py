"""The registry of workers and the staffing of pools in Redis."""
