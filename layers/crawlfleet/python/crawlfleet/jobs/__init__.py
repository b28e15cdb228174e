"""Jobs: starts, expansion, completion, cancellation, usage."""
