-- lease_items: lease items: those whose lease has ended, then those that wait.
-- KEYS[1] item_queue   LIST  ids, served from the tail
-- KEYS[2] item_leases  ZSET  token:id -> epoch ms at which the lease ends
-- KEYS[3] items        HASH  id -> item as JSON
-- KEYS[4] item_tries   HASH  id -> how often it was leased
-- ARGV[1] token        whose lease this becomes
-- ARGV[2] count        how many items at most
-- ARGV[3] bytes        how many bytes at most, but for the first item
-- ARGV[4] now          epoch ms
-- ARGV[5] until        epoch ms at which this lease ends
-- reply   id, item, attempt, id, item, attempt...
even_when_full(KEYS[2])
local wanted, room = tonumber(ARGV[2]), tonumber(ARGV[3])
local taken, reply = 0, {}

-- False when there is no room; let_go takes the id from where it was.
local function take(id, let_go)
  local item = redis.call('HGET', KEYS[3], id)
  if item and taken > 0 and #item > room then return false end
  let_go()
  if item then
    redis.call('ZADD', KEYS[2], ARGV[5], ARGV[1] .. ':' .. id)
    local attempt = redis.call('HINCRBY', KEYS[4], id, 1)
    taken, room = taken + 1, room - #item
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, item, attempt
  end
  return true
end

local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[4], 'LIMIT', 0, wanted)
for _, member in ipairs(ended) do
  local function let_go() redis.call('ZREM', KEYS[2], member) end
  if not take(string.match(member, '[^:]*$'), let_go) then return reply end
end
while taken < wanted do
  local id = redis.call('LINDEX', KEYS[1], -1)
  if not id or not take(id, function() redis.call('RPOP', KEYS[1]) end) then break end
end
return reply
