"""The rim: everything that talks to Redis, MongoDB, AWS or the web."""
