-- count_items: count the items of a queue key.
-- KEYS[1] items  HASH  id -> item as JSON
-- reply   how many, leased ones included
return redis.call('HLEN', KEYS[1])
