"""The consumer function; its door is ``handler``."""
