"""The scheduler function; its door is ``handler``."""
