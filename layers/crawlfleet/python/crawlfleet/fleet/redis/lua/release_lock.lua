-- release_lock: release the lock of a holder that is done.
-- KEYS[1] turns   HASH  name -> 'started ends holder', epoch ms by the server's clock
-- ARGV[1] name    what was to be done
-- ARGV[2] holder  who has done it
-- reply   1, or 0 and no effect if the lock is another's now
local started, holder =
  string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) %d+ (.*)$')
if holder ~= ARGV[2] then return 0 end
even_when_full(KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], started .. ' 0 ' .. holder)
return 1
