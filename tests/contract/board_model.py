"""The board as its contract tells it: every question is answered by looking at everything."""

from tests.kit.bidding import GAIN_MS, SCALE, Applied, ListingResult


class Model:
    """Times are seconds, jobs are keys; what each job is, is in plain fields."""

    def __init__(self):
        self.jobs = {}
        self.passes = {}
        self.served = 0
        self.begun = {}
        self.given = 0
        #: All that ever came and went, for what must never be lost or doubled.
        self.taken_off = []

    def add(self, key, priority, weight, pool, ago, now, wait):
        if key in self.jobs:
            return ListingResult.STANDING
        if key in self.begun and self.begun[key][1] > now - 60:
            return ListingResult.BEGUN
        if not self.of(key[0]):
            self.passes[key[0]] = max(self.passes.get(key[0], 0), self.served)
        self.jobs[key] = {
            "key": key,
            "state": "waiting",
            "weight": weight,
            "pool": pool,
            "lowered": 0,
            "rank": (now - ago) * 1000 - priority * GAIN_MS,
            "until": now + wait,
            "bids": {},
            "worker": None,
            "number": None,
        }
        self.begun.pop(key, None)
        return ListingResult.LISTED

    def of(self, tenant):
        return [one for key, one in self.jobs.items() if key[0] == tenant]

    def holds(self, worker):
        for one in self.jobs.values():
            if worker in one["bids"] or one["worker"] == worker:
                return one
        return None

    def head(self, pool, limit, first):
        queued = [
            one
            for one in self.jobs.values()
            if one["state"] != "awarded" and one["pool"] in {None, pool}
        ]
        passes, order = dict(self.passes), []
        while queued:
            nearest = min(
                queued, key=lambda one: (passes[one["key"][0]], *one["key"][:1], *place(one))
            )
            queued.remove(nearest)
            passes[nearest["key"][0]] += SCALE // nearest["weight"]
            order.append(nearest["key"])
        return order[first : first + limit]

    def apply(self, worker, key, now, window):
        holds, one = self.holds(worker), self.jobs.get(key)
        if holds is not None:
            return Applied.APPLIED if one is holds and worker in one["bids"] else Applied.BUSY
        if one is None or one["state"] == "awarded":
            return Applied.GONE
        if not one["bids"]:
            one.update(state="applied", until=now + window)
        one["bids"][worker] = b"%d" % now
        return Applied.APPLIED

    def retract(self, worker, now, wait):
        one = self.holds(worker)
        if one is None:
            return None
        if one["state"] == "awarded":
            self.take_back(one, now + wait)
        else:
            del one["bids"][worker]
            if not one["bids"]:
                one.update(state="waiting", until=now + wait)
        return one["key"]

    def award(self, key, worker, until):
        one = self.jobs[key]
        tenant = key[0]
        self.served = max(self.served, self.passes[tenant])
        self.passes[tenant] += SCALE // one["weight"]
        self.given += 1
        one.update(state="awarded", bids={}, worker=worker, until=until)

    def acknowledge(self, worker, key, number, now):
        one = self.jobs.get(key)
        if one is None or one["state"] != "awarded":
            return key in self.begun and self.begun[key][0] == (worker, number)
        if (one["worker"], one["number"]) != (worker, number) or now > one["until"]:
            return False
        self.take_off(key)
        self.begun = {of: said for of, said in self.begun.items() if said[1] > now - 60}
        self.begun[key] = (worker, number), now
        return True

    def lapse(self, now, wait):
        self.begun = {of: said for of, said in self.begun.items() if said[1] > now - 60}
        late = [
            one for one in self.jobs.values() if one["state"] == "awarded" and one["until"] < now
        ]
        late.sort(key=lambda one: (one["until"], "/".join(one["key"])))
        found = [(one["key"], one["worker"]) for one in late]
        for one in late:
            self.take_back(one, now + wait)
        return found

    def take_back(self, one, until):
        tenant = one["key"][0]
        self.passes[tenant] = max(0, self.passes[tenant] - SCALE // one["weight"])
        ranks = [each["rank"] - 1 for each in self.of(tenant) if each["state"] != "awarded"]
        rank = max(0, min([one["rank"], *ranks]))
        one.update(state="waiting", worker=None, number=None, until=until, rank=rank)

    def lower(self, key, lowered, now, wait):
        if not self.defer(key, lowered, now, wait, stays=False):
            return False
        self.jobs[key]["lowered"] += 1
        return True

    def defer(self, key, lowered, now, wait, stays):
        one = self.jobs.get(key)
        if one is None or one["state"] != "waiting" or one["lowered"] != lowered:
            return False
        if not stays:
            one["rank"] = now * 1000
        one["until"] = now + wait
        return True

    def withdraw(self, key):
        if key not in self.jobs:
            return False
        self.take_off(key)
        return True

    def take_off(self, key):
        del self.jobs[key]
        tenant = key[0]
        if not self.of(tenant) and self.passes[tenant] <= self.served:
            del self.passes[tenant]

    def due(self, state, now):
        found = [one for one in self.jobs.values() if one["state"] == state and one["until"] <= now]
        found.sort(key=lambda one: (one["until"], "/".join(one["key"])))
        return [one["key"] for one in found]


def place(one):
    return one["rank"], "/".join(one["key"])
