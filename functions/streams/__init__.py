"""The trials function; its door is ``handler``."""
