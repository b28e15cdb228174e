"""The router function; its door is ``handler``."""
