"""Money: what crawls cost, by one table of prices and by what workers have measured (SPEC.md H2).

1. ``fleet/prices.toml`` has list prices by region, measurements and assumptions. The cost page of
   the documentation is computed from the same file; a stage's document overrides what it pays.
2. Workers measure what each job, and each biz by the day, takes of them (worker.usage_meter): it
   comes with what they report of runs, and is multiplied when somebody asks (``fleet.prices``).
3. What a run took is kept with the latest ones of its spider, its hosts and its tenant; the next
   one is forecast from them at its start, and compared at its end (``forecast``).
4. Days are summed up once their workers are over, one document a biz and day (``mongo``).
"""
