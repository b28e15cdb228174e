-- reserve_slots: what a worker's ask for slots at a host gets (SPEC.md H3).
-- KEYS[1] host     HASH  * -> the host, tenant -> its slots, 'worker tenant' -> permits
-- KEYS[2] strain   HASH  origin -> its overload, for all tenants
-- KEYS[3] own      HASH  origin -> its overload, for this tenant; * -> its pace
-- ARGV[1] tenant   who asks
-- ARGV[2] worker   by whom
-- ARGV[3] figures  'count running interval concurrency share now': slots wanted, slots in use, us
--                  between two slots, downloads at once, the tenant's share, epoch us or nothing for
--                  the server's clock
-- ARGV[4] origin   what is asked for, or '' for any of the host
-- reply   'count wait interval permits ready why': slots, us until the first and between two,
--         permits, us until more may be asked for, and what for
--
-- Slots. A slot is a moment, granted up to HORIZON ahead, so that a request waits once. The next one
-- is at the host's latest slot plus an interval (the theoretical arrival time of GCRA, without a
-- burst). Tenants may have unlike intervals: a slot keeps the shorter interval of the two to every
-- other tenant's latest slot, and its own to its tenant's. So a polite tenant is held to its own
-- interval and slows nobody down.
--
-- Shares of slots. A tenant that got less than it asked for, and less than it would have got here
-- alone, counts at the host for DEMAND. A tenant's part is its share of the shares of those who
-- count, the asking one included: the k-th part while k alike do. Each one's look-ahead is metered by
-- a second GCRA, slower by that: at most its part of the horizon is ahead of it. A tenant that has
-- used that up may still take the next slot once its moment has come: nobody wanted it earlier. So
-- all slots are used, and a tenant that asks gets at least its part of the slots beyond the first
-- horizon, but for one slot.
--
-- Permits. A worker's permits are what it may have in flight: not more than it has slots for, not
-- more than the host's concurrency less what others hold. What others that count lack up to their
-- part is kept for them, one at least; a tenant that holds more than its part gets no slots until it
-- does not. Where there are fewer permits than tenants, those without one that waited longer come
-- first. A worker gets no more slots than its permits can serve within the horizon, at the time that
-- answers take: a slot that cannot be used is lost to all.
--
-- Grace. A worker's report may have been on its way when it was granted something: a grant stands
-- for GRACE, whatever the worker says to have in flight.
local SOON, PERMIT_SOON, PERMIT_LATE, GUESS = 50000, 200000, 1000000, 1000000
local MAX_TENANTS = 128
even_when_full(KEYS[1])
local tenant = ARGV[1]
local wanted, running, asked, concurrency, own_share, now =
  match(ARGV[3], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d*)$')
wanted, running, concurrency = tonumber(wanted), tonumber(running), tonumber(concurrency)
now = tonumber(now) or server_us()
local host = load_host(now, tenant, ARGV[2])
local own = host.tenants[tenant]
if not own then
  if host.count >= MAX_TENANTS then
    save_host(host, now, tenant)
    return wanted > 0 and format('0 0 1 0 %.0f share', HORIZON / 2) or '0 0 1 0 0 '
  end
  own = {last = 0, share_at = 0, unmet_at = 0, permits = 0, served_at = 0}
  host.tenants[tenant] = own
end
own.concurrency, own.share = concurrency, tonumber(own_share)

-- 1. the next slot by the host's rate
local own_answer, own_pace = load_own_pace(KEYS[3])
local usual = max(1, asked, host.pace, own_pace)
local interval, until_us = usual, 0
for _, one in ipairs({host, load_strain(KEYS[2], ARGV[4]), load_strain(KEYS[3], ARGV[4])}) do
  until_us = max(until_us, one.until_us)
  if one.slow > 0 then
    interval = max(interval, min(usual * 2 ^ min(one.overload, 20), one.slow))
  end
end
local start = max(now, host.last + min(host.gap, interval), own.last + interval)
local rivals, shortest, shares = {}, interval, own.share
for name, one in pairs(host.tenants) do
  if name ~= tenant then
    start = max(start, one.last + min(one.interval, interval))
    if one.unmet_at + DEMAND > now then
      rivals[#rivals + 1] = one
      shortest, shares = min(shortest, one.interval), shares + one.share
    end
  end
end
local latest, count, why = now + HORIZON, 0, ''
if start <= latest then count = floor((latest - start) / interval) + 1 end
if count < wanted then why = 'rate' end
count = min(count, wanted)
local own_start = max(now, min(own.last + interval, latest + interval))
local unshared = min(wanted, floor((latest - own_start) / interval) + 1)

-- 2. the tenant's share of them
local meter, share_from = interval, max(now, own.share_at)
if #rivals > 0 then
  meter = max(interval, ceil(shortest * shares / own.share))
  share_from = min(share_from, latest + meter)
  local share = floor((latest - share_from) / meter) + 1
  if share < count then
    why = 'share'
    if share <= 0 and start <= now then
      count, meter = 1, 0
    else
      count = max(0, share)
    end
  end
end
local following = start + count * interval
local ready = following - now - HORIZON / 2
if why == 'share' then
  ready = max(ready, share_from + count * meter - now - HORIZON / 2)
  ready = min(ready, following - now)
end
ready = max(SOON, ready)

-- 3. permits
local kept = kept_by(host, running, concurrency, now)
local theirs, permits, lacking = own.permits - (host.held or 0), kept, 0
local answer = max(host.answer, own_answer)
if answer == 0 then answer = GUESS end
-- How many more slots so many permits can serve within the horizon.
local function fitting(of)
  if of <= 0 then return 0 end
  return max(0, max(of, ceil(of * HORIZON / answer)) - running)
end
if now < until_us then
  count, unshared, why, ready = 0, 0, 'back-off', until_us - now
else
  local most, others = concurrency, theirs
  for name, one in pairs(host.tenants) do
    if name ~= tenant and one.permits > 0 then
      most, others = max(most, one.concurrency), others + one.permits
    end
  end
  local room = min(most - others, concurrency - theirs)
  local alone = room
  if #rivals > 0 then
    local share = max(1, floor(most * own.share / shares))
    local lack, starving = 0, 0
    for _, one in ipairs(rivals) do
      lack = lack + min(max(1, floor(most * one.share / shares)), one.want)
      if one.permits == 0 and one.want > 0 and one.unmet_at + HORIZON >= now
        and one.served_at < own.served_at then
        starving = starving + 1
      end
    end
    room = min(room, max(share, most - lack) - theirs, most - others - starving)
  end
  local fits = room >= kept and fitting(room) or 0
  unshared = min(unshared, fitting(concurrency - theirs))
  if fits < count then
    lacking, count = count - fits, fits
    why = room < alone and 'share' or 'concurrency'
    ready = max(PERMIT_SOON, min(PERMIT_LATE, floor(answer / 2)))
  end
  permits = max(kept, min(room, running + count))
end

-- 4. what is given is spent
local granted_at = host.granted_at or 0
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
save_host(host, now, tenant, permits, granted_at, permits > 0 and now + PERMIT)
local wait = count > 0 and start - now or 0
return format('%.0f %.0f %.0f %.0f %.0f %s', count, wait, interval, permits, ready, why)
