-- report_bizs: set the bizs of a tenant; removed ones, that were there or asked for, are returned.
-- KEYS[1] bizs  HASH  biz -> 1 if the tenant has it, else 0, and the name of its queue
-- ARGV          a biz and the name of its queue, for each that there is
-- reply   a biz and the name of its queue, for each that there is not
local there, gone = {}, {}
for i = 1, #ARGV, 2 do
  there[ARGV[i]] = true
  redis.call('HSET', KEYS[1], ARGV[i], '1' .. ARGV[i + 1])
end
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if not there[all[i]] then
    local queue = string.sub(all[i + 1], 2)
    redis.call('HSET', KEYS[1], all[i], '0' .. queue)
    gone[#gone + 1] = all[i]
    gone[#gone + 1] = queue
  end
end
return gone
