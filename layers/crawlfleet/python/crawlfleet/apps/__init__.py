"""The applications: one module a function, and the context that opens what they share."""
