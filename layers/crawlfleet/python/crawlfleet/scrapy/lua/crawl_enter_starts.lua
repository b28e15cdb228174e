-- crawl_enter_starts: add a batch of start URLs from another slot to the queue, once.
-- KEYS[1] queue     ZSET  id -> minus its priority
-- KEYS[2] requests  HASH  id -> score and request
-- KEYS[3] serial    STRING  ids given so far
-- KEYS[4] absorbed  ZSET  batch -> the server's ms at which it entered
-- KEYS[5] counts    HASH  submitted, done, dead, cancelled
-- ARGV[1] order     as of crawl_push
-- ARGV[2] batch     its name
-- ARGV[3..]         its start URLs
-- reply   id and start URL of each that entered: none if the batch had entered before
--
-- A slow process may repeat a batch whose successor has been added.
local KEPT_MS = 3600000
local LIFE_SECONDS = 86400
local now = server_ms()
if redis.call('ZADD', KEYS[4], 'NX', now, ARGV[2]) == 0 then return {} end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now - KEPT_MS)
redis.call('EXPIRE', KEYS[4], LIFE_SECONDS)
local starts = {}
for i = 3, #ARGV do starts[#starts + 1] = ARGV[i] end
local entered = enter_starts(KEYS[1], KEYS[2], KEYS[3], ARGV[1], starts)
if #starts > 0 then redis.call('HINCRBY', KEYS[5], 'submitted', #starts) end
return entered
