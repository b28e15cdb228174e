-- ask_biz: ask whether a tenant has a biz that items are to be put in for; one of an unknown tenant
-- is noted, so that report_bizs can return it.
-- KEYS[1] bizs   HASH  biz -> 1 if the tenant has it, else 0, and the name of its queue
-- ARGV[1] biz
-- ARGV[2] queue  the name of its queue
-- ARGV[3] most   bizs that are noted
-- ARGV[4] shown  bizs that are named in the reply
-- reply   1 if the tenant has it, 0 if it has others, -1 if that is unknown; then the others
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before and string.sub(before, 1, 1) == '1' then return { 1 } end
local others, all = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if string.sub(all[i + 1], 1, 1) == '1' then others[#others + 1] = all[i] end
end
if #others == 0 then
  if not before and #all / 2 < tonumber(ARGV[3]) then
    redis.call('HSET', KEYS[1], ARGV[1], '0' .. ARGV[2])
  end
  return { -1 }
end
table.sort(others)
local reply = { 0 }
for i = 1, math.min(#others, tonumber(ARGV[4])) do reply[#reply + 1] = others[i] end
return reply
