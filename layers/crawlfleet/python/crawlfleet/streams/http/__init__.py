"""Streams over HTTP: connections that stay, their lines, and the pauses between them."""
