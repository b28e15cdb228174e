"""Volume (SPEC.md A13): millions of requests submitted, looked up while they wait, and drained.

Everything is the product's own but the site: the router's handler code submits, worker processes
over the consumer's wiring drain, with a fetcher that answers at once from memory. Redis and MongoDB
are the run's own, and all of it shares one machine.

::

    plan       what a run is, what it needs of the disk and of time
    submitter  one process of those that submit (python -m benchmarks.volume.submitter)
    worker     one process of those that drain (python -m benchmarks.volume.worker)
    meters     what the servers hold and use, over time
    full       what is asked of a backlog while it is full
    checks     that nothing was lost
    run        the phases, one after another
    report     figures, charts and the sentence that says what an hour holds
"""
