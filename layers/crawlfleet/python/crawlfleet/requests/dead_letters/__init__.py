"""Dead letters: listing, replay, purge."""
