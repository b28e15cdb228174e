-- journal_gone: tell which of these are not there any more.
-- KEYS[1] kept  HASH  id -> a request or an item
-- ARGV[1..]     ids
-- reply   the ids that are not there
local gone = {}
for _, id in ipairs(ARGV) do
  if redis.call('HEXISTS', KEYS[1], id) == 0 then gone[#gone + 1] = id end
end
return gone
