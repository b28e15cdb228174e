"""The decisions: pure functions of what they are given, the clock included. One a file."""
