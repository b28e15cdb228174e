"""Records: their normal form, schema, coverage and the data queue."""
