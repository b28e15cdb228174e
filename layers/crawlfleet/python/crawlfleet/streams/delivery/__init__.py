"""Delivery: what subscriptions take is kept on the home node and pushed to receivers (SPEC.md D10).

1. A reader hands over items with the subscribers that want them; they are accepted once the item,
   and a delivery for each subscriber, are in the outbox (``mongo.accepting``).
2. A deliverer leases a receiver that is due, reads its oldest deliveries and pushes them in batches
   (``deliverer``, ``messages``, ``aws``, ``redis``).
3. What a receiver took is settled; what it did not take is tried again later, alone; what it never
   takes is a dead letter (``retries``, ``mongo.leasing``), which can be replayed.
4. What a channel withdraws is deleted, and receivers are told.
5. Replies are linked when they are read (``conversations``).
"""
