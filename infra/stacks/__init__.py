"""The stacks of a stage: they compose components and hand constructs on, and build nothing."""
