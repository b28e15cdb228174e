-- acquire_lock: give a lock to one holder at a time, and not more often than wanted.
-- KEYS[1] turns   HASH  name -> 'started ends holder', epoch ms by the server's clock
-- ARGV[1] name    what is to be done
-- ARGV[2] holder  who asks
-- ARGV[3] every   ms from one acquisition to the next
-- ARGV[4] term    ms after which the lock of a holder that did not come back ends
-- reply   1 if the caller has the lock now
--
-- A lock that was acquired in the future counts as none: the clock was set back since.
local now = server_ms()
local started, ends = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (%d+) ')
started, ends = tonumber(started), tonumber(ends)
if started and started <= now and (ends > now or now - started < tonumber(ARGV[3])) then
  return 0
end
even_when_full(KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f %s', now, now + ARGV[4], ARGV[2]))
return 1
