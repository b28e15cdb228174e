-- crawl_take_starts: take start URLs from their source for a crawl in another slot of a cluster.
-- KEYS[1] source  LIST  or SET, or ZSET of which the highest is first
-- KEYS[2] taking  LIST  the batch's name, then its start URLs, until they are known to have arrived
-- ARGV[1] batch   name of a new one
-- ARGV[2] number  of start URLs at most
-- reply   the batch in transit, the new one if there was none; empty without start URLs
--
-- One batch is in transit at a time, whichever process has taken it: it is finished first.
local under_way = redis.call('LRANGE', KEYS[2], 0, -1)
if #under_way > 0 then return under_way end
local taken = take_starts(KEYS[1], ARGV[2])
if not taken then return redis.error_reply(NO_STARTS) end
if #taken == 0 then return taken end
table.insert(taken, 1, ARGV[1])
apply('RPUSH', KEYS[2], taken)
return taken
