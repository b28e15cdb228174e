"""Checks of a deployment, from outside: `make smoke` on AWS, and the journey on LocalStack."""
