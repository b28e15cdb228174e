"""The frontier: seeds, their keys, filters and dispatch."""
