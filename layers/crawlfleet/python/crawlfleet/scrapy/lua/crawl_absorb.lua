-- crawl_absorb: move pushed start URLs into the queue.
-- KEYS[1] source    LIST  or SET, or ZSET of which the highest is first
-- KEYS[2] queue     ZSET  id -> minus its priority
-- KEYS[3] requests  HASH  id -> score and request
-- KEYS[4] serial    STRING  ids given so far
-- KEYS[5] counts    HASH  submitted, done, dead, cancelled
-- ARGV[1] order     as of crawl_push
-- ARGV[2] number    of start URLs at most
-- reply   id and start URL of each that was moved
local taken = take_starts(KEYS[1], ARGV[2])
if not taken then return redis.error_reply(NO_STARTS) end
local entered = enter_starts(KEYS[2], KEYS[3], KEYS[4], ARGV[1], taken)
if #taken > 0 then redis.call('HINCRBY', KEYS[5], 'submitted', #taken) end
return entered
