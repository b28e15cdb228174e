-- drop: a key that its tenant has no room for any longer.
-- KEYS[1] key STRING  what is dropped
-- reply   how many keys that were
return redis.call('UNLINK', KEYS[1])
