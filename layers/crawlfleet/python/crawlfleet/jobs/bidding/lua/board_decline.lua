-- board_decline: note why a pool's worker does not apply for jobs; its keys are those of
-- board_prelude.
-- ARGV[1] pool
-- ARGV[2] most   pools of which a job has a note
-- ARGV[3] now    epoch ms
-- ARGV[4] suits  ms for which a pool's 'busy' holds against another worker's 'lacks'
-- ARGV[5..]      job, 'kind lowered', reason, job...
-- reply   how many of the jobs are on the board
--
-- A note is 'pool kind lowered since at reason'; see jobs.bidding.listing.noted: since stays while
-- the link is at fault, or kind and demand are the same, and the note while it is a recent 'busy'
-- one.
local found, pool, now, suits = 0, ARGV[1], ARGV[3], tonumber(ARGV[4])

local function is_unanswered(kind)
  local word = string.match(kind, '^%S+')
  return word == 'away' or word == 'unjudged'
end

-- Whether another worker of the pool has just been busy that suits the job as it is.
local function is_less(what, at, kind)
  local before, said = string.match(what, '^busy (%d+)$'), string.match(kind, '^lacks (%d+)$')
  return before and before == said and tonumber(now) - tonumber(at) < suits
end

for i = 5, #ARGV, 3 do
  local job, kind = ARGV[i], ARGV[i + 1]
  if redis.call('HEXISTS', OFFERS, job) == 1 then
    found = found + 1
    local since, notes, kept = now, {}, nil
    for _, line in ipairs(lines(redis.call('HGET', NOTES, job) or '')) do
      local of, what, when, at = string.match(line, '^(%S+) (%S+ %d+) (%d+) (%d+)')
      if of ~= pool then
        if #notes < tonumber(ARGV[2]) - 1 then notes[#notes + 1] = line end
      elseif is_less(what, at, kind) then
        kept = line
      elseif what == kind or is_unanswered(what) and is_unanswered(kind) then
        since = when
      end
    end
    local note = kept or table.concat({pool, kind, since, now, ARGV[i + 2]}, ' ')
    table.insert(notes, 1, note)
    redis.call('HSET', NOTES, job, table.concat(notes, '\n'))
  end
end
return found
