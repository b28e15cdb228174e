"""The stores of jobs in MongoDB."""
