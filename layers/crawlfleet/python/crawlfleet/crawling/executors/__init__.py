"""Executors: classes that read a page where a rule does not."""
