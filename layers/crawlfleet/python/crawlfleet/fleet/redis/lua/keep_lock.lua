-- keep_lock: the holder of a lock goes on, so that it ends a whole term later.
-- KEYS[1] turns   HASH  name -> 'started ends holder', epoch ms by the server's clock
-- ARGV[1] name    what is being done
-- ARGV[2] holder  who does it
-- ARGV[3] term    ms after which the lock of a holder that did not come back ends
-- reply   1, or 0 and no effect if the lock is released, or another's now
local started, ends, holder =
  string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (%d+) (.*)$')
if holder ~= ARGV[2] or ends == '0' then return 0 end
even_when_full(KEYS[1])
local until_ms = string.format('%.0f', server_ms() + ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], started .. ' ' .. until_ms .. ' ' .. holder)
return 1
