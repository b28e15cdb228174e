-- count_items: how many items a lane has.
-- KEYS[1] items  HASH  id -> item as JSON
-- reply   how many, leased ones included
return redis.call('HLEN', KEYS[1])
