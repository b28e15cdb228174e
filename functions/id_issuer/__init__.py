"""The id-issuer function; its door is ``handler``."""
