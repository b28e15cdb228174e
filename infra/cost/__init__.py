"""The cost of a million pages, in each stage and on one machine: ``python -m infra.cost``.

::

    inputs        crawlfleet/fleet/prices.toml as values: every number that goes in
    shapes        what a stage consists of, as far as it costs
    model         the arithmetic: lines of so many dollars, each with its assumption
    peers         what others have published
    page          tables and charts for docs/how-it-works/cost.md
"""
