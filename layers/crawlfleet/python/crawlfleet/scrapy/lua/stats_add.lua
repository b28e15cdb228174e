-- stats_add: apply what a process has counted to the stats that all processes of a spider share.
-- KEYS[1] stats  HASH  name -> value
-- ARGV[1]        and so on, four an operation: add, set, max or min; the name; the value; for add
--                what a name begins at that has no value
-- reply   how many operations were applied: a sum of what is no number is none
local applied = 0
for i = 1, #ARGV, 4 do
  local operation, name, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local answer = 1
  if operation == 'add' then
    redis.call('HSETNX', KEYS[1], name, ARGV[i + 3])
    answer = redis.pcall('HINCRBY', KEYS[1], name, value)
    if type(answer) == 'table' and answer.err then
      answer = redis.pcall('HINCRBYFLOAT', KEYS[1], name, value)
    end
  else
    local there, new = tonumber(redis.call('HGET', KEYS[1], name) or ''), tonumber(value)
    local beaten = operation ~= 'set' and there and new
      and ((operation == 'max' and there >= new) or (operation == 'min' and there <= new))
    if not beaten then redis.call('HSET', KEYS[1], name, value) end
  end
  if type(answer) ~= 'table' or not answer.err then applied = applied + 1 end
end
return applied
