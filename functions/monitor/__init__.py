"""The monitor function; its door is ``handler``."""
