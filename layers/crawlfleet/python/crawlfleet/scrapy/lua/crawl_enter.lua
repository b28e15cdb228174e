-- crawl_enter: have a process take part in a crawl; where nothing is under way a new run begins.
-- KEYS[1] processes     ZSET  process -> epoch ms at which it is taken to be gone
-- KEYS[2] queue         ZSET  id -> minus its priority
-- KEYS[3] leases        ZSET  process:id -> epoch ms at which the lease ends
-- KEYS[4] starts        SET   marks of the start requests of this run
-- KEYS[5] requests      HASH  id -> score and request
-- KEYS[6] seen          SET   fingerprints
-- KEYS[7] fingerprints  STRING  how fingerprints are made
-- KEYS[8] ended         STRING  1: to be forgotten when nobody is left
-- KEYS[9] deaths        HASH  id -> how many processes have ended while they had it
-- KEYS[10] counts      HASH  submitted, done, dead, cancelled: of all runs
-- KEYS[11] beats       HASH  journal -> its last number, or forgotten
-- ARGV[1] process
-- ARGV[2] term    ms until it is taken to be gone
-- ARGV[3] flush   1 if everything is to be forgotten first, unless others take part
-- reply   queued, leased, other processes, 1 if everything was forgotten, how fingerprints are made
local now = server_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZREM', KEYS[1], ARGV[1])
local others = redis.call('ZCARD', KEYS[1])
local flushed = 0
local under_way = redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3])
local ended = redis.call('GET', KEYS[8]) == '1' and under_way == 0
redis.call('PERSIST', KEYS[10])
redis.call('PERSIST', KEYS[11])
if under_way > 0 then redis.call('HSETNX', KEYS[10], 'submitted', under_way) end -- of an older version
if others == 0 and (ARGV[3] == '1' or ended) then
  for i = 2, 9 do redis.call('UNLINK', KEYS[i]) end
  forget_journals(KEYS[11])
  if under_way > 0 then redis.call('HINCRBY', KEYS[10], 'cancelled', under_way) end
  flushed = 1
end
if under_way > 0 then redis.call('DEL', KEYS[8]) end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
local queued, leased = redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[3])
if queued == 0 and leased == 0 and others == 0 then redis.call('DEL', KEYS[4]) end
return { queued, leased, others, flushed, redis.call('GET', KEYS[7]) or '' }
