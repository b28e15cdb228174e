-- Stands before the scripts that know the journals of processes. The HASH of beats has of each journal
-- its last number, or forgotten, and after a space the server's second of it.

-- A journal that was not heard of for this long is swept out, once there are many; what is still open
-- in one that comes back then is put in again.
local JOURNAL_SECONDS = 2592000
local FEW_JOURNALS = 1000

local function server_second()
  return math.floor(server_ms() / 1000)
end

local function sweep_journals(key)
  if redis.call('HLEN', key) <= FEW_JOURNALS then return end
  local oldest, known, gone = server_second() - JOURNAL_SECONDS, redis.call('HGETALL', key), {}
  for i = 1, #known, 2 do
    local second = tonumber(string.match(known[i + 1], ' (%d+)$') or 0)
    if second < oldest then gone[#gone + 1] = known[i] end
  end
  apply('HDEL', key, gone)
end

-- Tells all journals of a crawl that it was forgotten.
local function forget_journals(key)
  local known, second = redis.call('HGETALL', key), server_second()
  for i = 1, #known, 2 do
    if string.find(known[i + 1], 'forgotten', 1, true) ~= 1 then
      redis.call('HSET', key, known[i], 'forgotten ' .. second)
    end
  end
end
