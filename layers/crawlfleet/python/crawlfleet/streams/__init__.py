"""Sources and subscribers: streams that many share (SPEC.md D3 to D10).

1. A filter says in one line what a subscriber wants (``parsing``, ``filters``, ``text``).
2. Subscriptions to a channel share sources, each read by one worker (``sources``),
   which holds its channel meanwhile (``holds``, ``redis``).
3. The terms of a channel are packed into the rules that it takes (``packing``).
4. One pass over an item finds the subscribers that want it (``matching``).
5. A reader gives the items of a channel (``items``): ``ndjson`` reads lines of JSON over ``http``,
   ``feeds`` many feeds in rounds;
   ``reading`` runs the readers of a worker, and hands what is wanted on.
6. What they want is kept and pushed to their targets (``delivery``, ``targets``).
"""
