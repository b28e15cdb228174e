"""Records: how they are normalised, their schema, coverage and the data queue."""
