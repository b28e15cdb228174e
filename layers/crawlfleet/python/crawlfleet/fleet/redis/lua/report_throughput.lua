-- report_throughput: learn a worker's throughput, and tell the worker whether it is to leave.
-- KEYS[1] staff       HASH  pool -> 'version needed kept at quiet peak allowed floor stated', of
--                           which the last two may be missing; 'pool pace' -> rate
-- KEYS[2] leaving     ZSET  worker that is told to leave -> server's epoch ms
-- KEYS[3] workers     ZSET  worker id -> epoch ms of its last beat, by the callers' clocks
-- KEYS[4] paces       HASH  'pool tenant/biz' -> 'pace at', server's epoch ms
-- ARGV[1] pool
-- ARGV[2] worker      its id
-- ARGV[3] throughput  requests a second, or nothing where none was measured; a '>' before it
--                     says that it is the least, as the worker had little to do
-- ARGV[4] weight      of this throughput beside what is known, 0 to 1
-- ARGV[5] live after  epoch ms: a worker whose last beat is not later is taken to be dead
-- ARGV[6] fresh       ms for which a decision is one
-- ARGV[7] most        throughputs of queues that are kept
-- ARGV[8..]           tenant/biz, throughput, tenant/biz, throughput...
-- reply   {1 if it is to leave, how many others live that are not told to, how many are to be there
--          though there is nothing to do}
even_when_full(KEYS[1])
local now = server_ms()
-- What is known then, or nil; as fleet.autoscaler.learnt.
local function learnt(known, shown)
  local least, rate = string.match(shown, '^(>?)(.*)$')
  known, rate = tonumber(known or ''), tonumber(rate)
  if least == '>' and not known then return nil end
  if least == '>' and rate < known then rate = known end
  known = known or rate
  return string.format('%.6g', known + (rate - known) * ARGV[4])
end
if ARGV[3] ~= '' then
  local field = ARGV[1] .. ' pace'
  local rate = learnt(redis.call('HGET', KEYS[1], field) or nil, ARGV[3])
  if rate then redis.call('HSET', KEYS[1], field, rate) end
end
for i = 8, #ARGV, 2 do
  local field = ARGV[1] .. ' ' .. ARGV[i]
  local known = string.match(redis.call('HGET', KEYS[4], field) or '', '^%S+')
  local rate = learnt(known, ARGV[i + 1])
  if rate then redis.call('HSET', KEYS[4], field, string.format('%s %.0f', rate, now)) end
end
local over = redis.call('HLEN', KEYS[4]) - ARGV[7]
if over > 0 then
  -- Those that were shown longest ago; some more at once, so that this is done seldom.
  local found, ages = redis.call('HGETALL', KEYS[4]), {}
  for i = 1, #found, 2 do
    ages[#ages + 1] = { tonumber(string.match(found[i + 1], '%S+$')) or 0, found[i] }
  end
  table.sort(ages, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  for i = 1, math.min(#ages, over + math.floor(ARGV[7] / 10)) do
    redis.call('HDEL', KEYS[4], ages[i][2])
  end
end

-- Whoever was told to and is not among the workers any more has left, or has died.
local going = 0
for _, worker in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local beaten = redis.call('ZSCORE', KEYS[3], worker)
  if beaten and tonumber(beaten) > tonumber(ARGV[5]) then
    going = going + 1
  else
    redis.call('ZREM', KEYS[2], worker)
  end
end
local live = redis.call('ZCOUNT', KEYS[3], '(' .. ARGV[5], '+inf')
local beaten = redis.call('ZSCORE', KEYS[3], ARGV[2])
local others = live - going
if redis.call('ZSCORE', KEYS[2], ARGV[2]) then return { 1, others, 0 } end
if beaten and tonumber(beaten) > tonumber(ARGV[5]) then others = others - 1 end

local standing = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local kept, at = string.match(standing, '^%d+ %d+ (%d+) (%d+) ')
if not kept or math.abs(now - at) > tonumber(ARGV[6]) then return { 0, others, 0 } end
local floor = string.match(standing, '^%d+ %d+ %d+ %d+ %d+ %d+ %-?%d+ (%d+)') or 0
floor = tonumber(floor)
if not beaten then return { 0, others, floor } end
if live - going <= math.max(1, tonumber(kept)) then return { 0, others, floor } end
redis.call('ZADD', KEYS[2], now, ARGV[2])
return { 1, others, 0 }
