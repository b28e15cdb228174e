-- sample_queue: some entries of the queue, from its whole length; they stay where they are.
-- KEYS[1..11]    LIST  entries of priority 0 to 10, served from the tail
-- ARGV[1] count  of entries, at most
-- reply   entries, those of the highest priority first, of each the one to be served next
--
-- An entry in the middle costs a step for each of the list's nodes before it, some 100 entries each:
-- 0.2 ms at most in a list of five million.
local length, count = queued(1), tonumber(ARGV[1])
local reply, level, before = {}, LEVELS - 1, 0
count = math.min(count, length)
local here = redis.call('LLEN', KEYS[1 + level])
for i = 1, count do
  local place = count == 1 and 0 or math.floor((i - 1) * (length - 1) / (count - 1))
  while place - before >= here do
    before, level = before + here, level - 1
    here = redis.call('LLEN', KEYS[1 + level])
  end
  reply[i] = redis.call('LINDEX', KEYS[1 + level], -1 - (place - before)) or ''
end
return reply
