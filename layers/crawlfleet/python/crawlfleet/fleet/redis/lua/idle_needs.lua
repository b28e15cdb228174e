-- idle_needs: since when those that state needs have had nothing to do; who states none is forgotten.
-- KEYS[1] needs   HASH  who states needs -> server's epoch ms when it was last at work
-- ARGV[1] active  how many of the names that follow are at work now; these come first
-- ARGV[2..]       who states needs
-- reply   of each name, in order, the ms since it was at work; 0 for one that is new
even_when_full(KEYS[1])
local now, active, stated, reply = server_ms(), tonumber(ARGV[1]), {}, {}
for i = 2, #ARGV do
  local name = ARGV[i]
  stated[name] = true
  local last = tonumber(redis.call('HGET', KEYS[1], name) or '')
  -- A clock that was set back is no reason to release what is in use.
  if i - 1 <= active or not last or last > now then
    last = now
    redis.call('HSET', KEYS[1], name, string.format('%.0f', now))
  end
  reply[#reply + 1] = now - last
end
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not stated[name] then redis.call('HDEL', KEYS[1], name) end
end
return reply
