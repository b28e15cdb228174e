-- list_leases: one step through the lease set; its cost is bounded.
-- KEYS[1] leases  ZSET  token:entry -> epoch ms at which the lease ends
-- ARGV[1] cursor  0, then what the last step replied
-- ARGV[2] match   glob pattern of the members
-- ARGV[3] count   about how many members the step looks at
-- reply   {cursor, or 0 after the last step; members...}; a member may come twice
local step = redis.call('ZSCAN', KEYS[1], ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local found = {step[1]}
for i = 1, #step[2], 2 do found[#found + 1] = step[2][i] end
return found
