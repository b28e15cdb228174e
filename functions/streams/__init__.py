"""The streams function; its door is ``handler``."""
