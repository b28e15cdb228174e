-- reserve_turns: what a worker's ask for turns at a host gets (policy.turns tells the law).
-- KEYS[1] host_turns    HASH  * -> the host, tenant -> its turns; numbers, see host_prelude
-- KEYS[2] host_permits  ZSET  'worker tenant' -> epoch us at which its permits end
-- KEYS[3] host_held     HASH  'worker tenant' -> 'count granted', how many and epoch us
-- ARGV[1] tenant        who asks
-- ARGV[2] worker        by whom
-- ARGV[3] count         how many turns
-- ARGV[4] running       how many it has, not ended
-- ARGV[5] interval      us between two turns
-- ARGV[6] concurrency   downloads at once
-- ARGV[7] now           epoch us, or empty for the server's clock
-- reply   {count, us until the first, interval in us, permits, us until more may be asked for, why}
local SOON, PERMIT_SOON, PERMIT_LATE, GUESS = 50000, 200000, 1000000, 1000000
local MAX_TENANTS = 128
even_when_full(KEYS[1])
local tenant, wanted, running = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local concurrency, now = tonumber(ARGV[6]), tonumber(ARGV[7]) or server_us()
local member = ARGV[2] .. ' ' .. tenant
local host = load_host(now, tenant)
local own = host.tenants[tenant]
if not own then
  if host.count >= MAX_TENANTS then
    save_host(host, now)
    return {0, 0, 1, 0, wanted > 0 and HORIZON / 2 or 0, wanted > 0 and 'share' or ''}
  end
  own = {last = 0, share_at = 0, unmet_at = 0, permits = 0, served_at = 0}
  host.tenants[tenant] = own
end
own.concurrency, own.changed = concurrency, true

-- 1. the next turn by the host's rate
local interval = math.max(1, tonumber(ARGV[5]), host.pace)
if host.slow > 0 then
  local doubled = interval * 2 ^ math.min(host.strain, 20)
  interval = math.max(interval, math.min(doubled, host.slow))
end
local start = math.max(now, host.last + math.min(host.gap, interval), own.last + interval)
local rivals, shortest = {}, interval
for name, one in pairs(host.tenants) do
  if name ~= tenant then
    start = math.max(start, one.last + math.min(one.interval, interval))
    if one.unmet_at + DEMAND > now then
      rivals[#rivals + 1] = one
      shortest = math.min(shortest, one.interval)
    end
  end
end
local latest, count, why = now + HORIZON, 0, ''
if start <= latest then count = math.floor((latest - start) / interval) + 1 end
if count < wanted then why = 'rate' end
count = math.min(count, wanted)
local own_start = math.max(now, math.min(own.last + interval, latest + interval))
local unshared = math.min(wanted, math.floor((latest - own_start) / interval) + 1)

-- 2. the tenant's share of them
local meter, share_from = interval, math.max(now, own.share_at)
if #rivals > 0 then
  meter = math.max(interval, shortest * (1 + #rivals))
  share_from = math.min(share_from, latest + meter)
  local share = math.floor((latest - share_from) / meter) + 1
  if share < count then
    why = 'share'
    if share <= 0 and start <= now then
      count, meter = 1, 0
    else
      count = math.max(0, share)
    end
  end
end
local following = start + count * interval
local ready = following - now - HORIZON / 2
if why == 'share' then
  ready = math.max(ready, share_from + count * meter - now - HORIZON / 2)
  ready = math.min(ready, following - now)
end
ready = math.max(SOON, ready)

-- 3. permits
local kept, before, granted_at = keeps(member, running, concurrency, now)
local theirs, permits, lacking = own.permits - (before or 0), kept, 0
local answer = host.answer > 0 and host.answer or GUESS
-- How many more turns so many permits can serve within the horizon.
local function fitting(of)
  if of <= 0 then return 0 end
  return math.max(0, math.max(of, math.ceil(of * HORIZON / answer)) - running)
end
if now < host.until_us then
  count, unshared, why, ready = 0, 0, 'back-off', host.until_us - now
else
  local most, others = concurrency, theirs
  for name, one in pairs(host.tenants) do
    if name ~= tenant and one.permits > 0 then
      most, others = math.max(most, one.concurrency), others + one.permits
    end
  end
  local room = math.min(most - others, concurrency - theirs)
  local alone = room
  if #rivals > 0 then
    local share = math.max(1, math.floor(most / (1 + #rivals)))
    local lack, starving = 0, 0
    for _, one in ipairs(rivals) do
      lack = lack + math.min(share, one.want)
      if one.permits == 0 and one.want > 0 and one.unmet_at + HORIZON >= now
        and one.served_at < own.served_at then
        starving = starving + 1
      end
    end
    room = math.min(room, math.max(share, most - lack) - theirs, most - others - starving)
  end
  local fits = room >= kept and fitting(room) or 0
  unshared = math.min(unshared, fitting(concurrency - theirs))
  if fits < count then
    lacking, count = count - fits, fits
    why = room < alone and 'share' or 'concurrency'
    ready = math.max(PERMIT_SOON, math.min(PERMIT_LATE, math.floor(answer / 2)))
  end
  permits = math.max(kept, math.min(room, running + count))
end

-- 4. what is given is spent
own.interval = interval
if count > 0 then
  own.last = start + (count - 1) * interval
  own.share_at = share_from + count * meter
  own.served_at, granted_at = now, now
  host.last, host.gap = own.last, interval
end
if count < unshared then own.unmet_at = now end
if count >= wanted then why, ready = '', 0 end
own.want = theirs + permits + lacking
own.permits = theirs + permits
hold(member, permits, granted_at, permits > 0 and now + PERMIT)
save_host(host, now)
return {count, count > 0 and start - now or 0, interval, permits, ready, why}
