-- crawl_push: queue requests of a crawl, unless their marks are known.
-- KEYS[1] queue     ZSET  id -> minus its priority; of equal ones the least id is served first
-- KEYS[2] requests  HASH  id -> score and request
-- KEYS[3] seen      SET   fingerprints
-- KEYS[4] starts    SET   marks of the start requests of this run
-- KEYS[5] serial    STRING  ids given so far
-- KEYS[6] counts    HASH  submitted, done, dead, cancelled
-- ARGV[1] order     newest: of equal priority the latest is served first; oldest: the earliest
-- ARGV[2]           and so on, four a request: the set of its mark (seen, starts or none), the mark,
--                   minus its priority, the request
-- reply   for each its id, empty if it was known
local sets = { seen = KEYS[3], starts = KEYS[4] }
local answers, submitted = {}, 0
for i = 2, #ARGV, 4 do
  local set = sets[ARGV[i]]
  if set and redis.call('SADD', set, ARGV[i + 1]) == 0 then
    answers[#answers + 1] = ''
  else
    local id = next_id(KEYS[5], ARGV[1])
    redis.call('HSET', KEYS[2], id, ARGV[i + 2] .. ' ' .. ARGV[i + 3])
    redis.call('ZADD', KEYS[1], ARGV[i + 2], id)
    answers[#answers + 1] = id
    submitted = submitted + 1
  end
end
if submitted > 0 then redis.call('HINCRBY', KEYS[6], 'submitted', submitted) end
return answers
