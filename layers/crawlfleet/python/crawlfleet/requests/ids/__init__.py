"""Ids of requests: blocks, worker numbers and who issues them."""
