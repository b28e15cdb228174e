-- crawl_leave: have a process leave a crawl; the last one may forget it.
-- KEYS[1] processes     ZSET  process -> epoch ms at which it is taken to be gone
-- KEYS[2] queue         ZSET  id -> minus its priority
-- KEYS[3] leases        ZSET  process:id -> epoch ms at which the lease ends
-- KEYS[4] requests      HASH  id -> score and request
-- KEYS[5] seen          SET   fingerprints
-- KEYS[6] starts        SET   marks of the start requests of this run
-- KEYS[7] fingerprints  STRING  how fingerprints are made
-- KEYS[8] ended         STRING  1: to be forgotten when nobody is left
-- KEYS[9] deaths        HASH  id -> how many processes have ended while they had it
-- KEYS[10] counts      HASH  submitted, done, dead, cancelled: kept for a month
-- KEYS[11] beats       HASH  journal -> its last number, or forgotten
-- ARGV[1] process
-- ARGV[2] forget   never; finished: if nothing is left to do; always: whatever is left
-- reply   1 if everything was forgotten
even_when_full(KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', server_ms())
redis.call('ZREM', KEYS[1], ARGV[1])
local left = redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3])
if ARGV[2] == 'never' or (ARGV[2] == 'finished' and left > 0) then return 0 end
if redis.call('ZCARD', KEYS[1]) > 0 then
  if left == 0 then redis.call('SET', KEYS[8], '1') end
  return 0
end
for i = 2, 9 do redis.call('UNLINK', KEYS[i]) end
forget_journals(KEYS[11])
redis.call('EXPIRE', KEYS[11], 2592000)
if left > 0 then redis.call('HINCRBY', KEYS[10], 'cancelled', left) end
redis.call('EXPIRE', KEYS[10], 2592000)
return 1
