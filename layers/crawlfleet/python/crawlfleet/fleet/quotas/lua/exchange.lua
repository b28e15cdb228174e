-- exchange: book what a holder has spent of an account, and grant it its next share.
-- KEYS[1] account  HASH  nonce    of the ledger: another one is begun where Redis has lost it
--                        ceiling  so much may be granted, as MongoDB has it
--                        spent    that holders have told of
--                        out      granted and not spent: what is held, and what is in doubt
--                        doubt    that part of it whose holders died
--                        wants    what live holders want to hold
--                        raising  when a holder was last asked to have the ceiling raised, epoch ms
--                        'h holder' -> 'state granted spent number wanted'; state is L of a live
--                        one, D of a dead one, R of one that has returned its share
-- KEYS[2] ends     ZSET  holder by the end of its lease, or when it is forgotten, epoch ms
-- KEYS[3] ledgers  ZSET  account of the tenant by its latest exchange, epoch ms
-- KEYS[4] used_up  ZSET  account that had less than somebody needs, by its latest exchange, epoch ms
-- ARGV[1] now      epoch ms, or empty for the server's clock
-- ARGV[2] nonce    of the ledger that the holder knows
-- ARGV[3] holder
-- ARGV[4] number   of this exchange of the holder's: what comes late is not done any more
-- ARGV[5] spent    by it, since its first exchange
-- ARGV[6] keep     of what it holds, as it is under way
-- ARGV[7] wanted   to be held by it
-- ARGV[8] least    less is of no use
-- ARGV[9] most     the limit
-- ARGV[10] ceiling that MongoDB has now; 0 is as before
-- ARGV[11] rate    1 where a dead holder's share comes back with its lease
-- ARGV[12] lease   ms
-- ARGV[13] until   epoch ms when the period ends; 0 is never
-- ARGV[14] kept    ms for which the dead, and those that hold nothing, are known
-- ARGV[15] account
-- reply   {nonce}, where it is another one; else {nonce, granted to the holder, spent, out, doubt,
--         ceiling, the ceiling that the wish would take or 0, ms left of the period or -1}; in the
--         place of that ceiling -1 where another one is having it raised
local RAISED_WITHIN_MS = 500
local now = tonumber(ARGV[1]) or server_ms()
local nonce = redis.call('HGET', KEYS[1], 'nonce') or ''
if nonce ~= ARGV[2] then return { nonce } end
even_when_full(KEYS[1])
local holder, is_rate = ARGV[3], ARGV[11] == '1'
local kept, ends_at = tonumber(ARGV[14]), tonumber(ARGV[13])
local figures = redis.call('HMGET', KEYS[1], 'ceiling', 'spent', 'out', 'doubt', 'wants',
  'raising')
for i = 1, 6 do figures[i] = tonumber(figures[i] or '0') end
local ceiling, spent, out, doubt, wants, raising = unpack(figures)
local function read(who)
  local state, rest = string.match(redis.call('HGET', KEYS[1], 'h ' .. who) or '', '^(%u) (.+)$')
  if not state then return 'L', 0, 0, 0, 0 end
  local found = {}
  for figure in string.gmatch(rest, '%S+') do found[#found + 1] = tonumber(figure) end
  return state, unpack(found)
end
local function write(who, state, granted, used, number, wanted, due)
  redis.call('HSET', KEYS[1], 'h ' .. who,
    string.format('%s %.0f %.0f %.0f %.0f', state, granted, used, number, wanted))
  redis.call('ZADD', KEYS[2], due, who)
end

for _, who in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 50)) do
  local state, granted, used, number, wanted = read(who)
  if state == 'L' then
    wants = wants - wanted
    if is_rate then
      out, granted = out - (granted - used), used
    else
      doubt = doubt + (granted - used)
    end
    write(who, 'D', granted, used, number, 0, now + kept)
  else
    -- Nobody tells of it any more. What is in doubt stays so: it may have been spent.
    redis.call('HDEL', KEYS[1], 'h ' .. who)
    redis.call('ZREM', KEYS[2], who)
  end
end

if tonumber(ARGV[10]) > ceiling then ceiling, raising = tonumber(ARGV[10]), 0 end
local most, short = tonumber(ARGV[9]), 0
local state, granted, used, number, wanted_before = read(holder)
if tonumber(ARGV[4]) > number then
  if state == 'D' and not is_rate then doubt = doubt - (granted - used) end
  number = tonumber(ARGV[4])
  local told, keep, wanted = math.max(used, tonumber(ARGV[5])), tonumber(ARGV[6]), tonumber(ARGV[7])
  if ends_at > 0 and now >= ends_at then wanted = keep end
  spent, out, wants = spent + told - used, out - (granted - used), wants + wanted - wanted_before
  -- What it has under way is its own, though its lease was over and others may have the rest.
  local held = math.max(keep, math.min(math.max(granted - told, 0), math.max(keep, wanted)))
  if wanted > held then
    local left = most - spent - out
    local share = math.floor(wanted * math.min(1, left / (2 * math.max(1, wants))))
    if doubt > 0 then
      -- Each further death would cost a budget what its worker has not spent: of a hundredth of it.
      share = math.min(share, keep + math.floor(math.max(0, most / 100 - doubt) / 4))
    end
    local target = math.min(wanted, math.max(share, tonumber(ARGV[8])), left)
    if target >= tonumber(ARGV[8]) and target > held then
      local room = ceiling - spent - out
      if target > room then
        short = -1
        if now - raising >= RAISED_WITHIN_MS then short, raising = spent + out + target, now end
      end
      target = math.min(target, room)
      if target >= tonumber(ARGV[8]) then held = math.max(held, target) end
    end
  end
  granted, out = told + held, out + held
  if wanted == 0 and held == 0 then
    -- It may go on, and tells sums: forgotten, all of it would be booked once more.
    write(holder, 'R', granted, told, number, 0, now + kept)
  else
    local due = now + tonumber(ARGV[12])
    if ends_at > now then due = math.min(due, ends_at) end
    write(holder, 'L', granted, told, number, wanted, due)
  end
end
redis.call('HSET', KEYS[1], 'ceiling', string.format('%.0f', ceiling),
  'spent', string.format('%.0f', spent), 'out', string.format('%.0f', out),
  'doubt', string.format('%.0f', doubt), 'wants', string.format('%.0f', wants),
  'raising', string.format('%.0f', raising))
redis.call('ZADD', KEYS[3], now, ARGV[15])
if most - spent - doubt < tonumber(ARGV[8]) then
  redis.call('ZADD', KEYS[4], now, ARGV[15])
  redis.call('ZREMRANGEBYRANK', KEYS[4], 0, -1001)
elseif tonumber(ARGV[7]) > 0 then
  redis.call('ZREM', KEYS[4], ARGV[15])
end
local life = math.ceil(math.max(ends_at - now, 0) / 1000) + 30 * 86400
for i = 1, 4 do redis.call('EXPIRE', KEYS[i], life) end
local left = -1
if ends_at > 0 then left = math.max(0, ends_at - now) end
return { nonce, granted, spent, out, doubt, ceiling, short, left }
