-- add_coverage: add to the coverage of one version of a rule, in all and of this hour. The version
-- silent for longest goes, and hours that are old.
-- KEYS[1] coverage  HASH  'rule version' -> 'at pages records rejected', then a line '=field count' a field
-- KEYS[2] hours     HASH  'hour rule version' -> the same; hours are counted from 1970
-- ARGV[1] version   'rule version'
-- ARGV[2] versions  how many are kept
-- ARGV[3] fields    how many fields of a version are counted
-- ARGV[4] pages     how many more
-- ARGV[5] records   how many more
-- ARGV[6] counts    a line '=field count' a field, the name percent-encoded
-- ARGV[7] rejected  how many more of the records were not stored
-- ARGV[8] hours     how many hours are kept
-- ARGV[9] most      how many versions of all these hours are kept together
-- reply   how many versions are kept now
local MOST_VERSIONS, MOST_FIELDS = tonumber(ARGV[2]), tonumber(ARGV[3])

local function last_counted(text)
  return tonumber(string.match(text, '^(%d+) [%d ]+\n')) or 0
end

-- Adds the lines of a text to the counts by field; what is no such line is passed over.
local function add(fields, known, text)
  for name, number in string.gmatch(text, '(=[^ \n]*) (%d+)\n') do
    if fields[name] then
      fields[name] = fields[name] + number
    elseif known < MOST_FIELDS then
      fields[name], known = tonumber(number), known + 1
    end
  end
  return known
end

-- Returns the counts with these added.
local function added(before)
  local pages, records, rejected = string.match(before or '', '^%d+ (%d+) (%d+) ?(%d*)\n')
  local fields = {}
  add(fields, add(fields, 0, before or ''), ARGV[6])
  -- No number where the version was last counted by a version that did not count rejected ones.
  rejected = tonumber(rejected) or 0
  local text = {string.format(
    '%.0f %.0f %.0f %.0f\n', server_ms(), (pages or 0) + ARGV[4], (records or 0) + ARGV[5], rejected + ARGV[7]
  )}
  for name, number in pairs(fields) do
    text[#text + 1] = name .. ' ' .. string.format('%.0f', number) .. '\n'
  end
  return table.concat(text)
end

local hour, kept = math.floor(server_ms() / 3600000), tonumber(ARGV[8])
local this_hour = string.format('%.0f %s', hour, ARGV[1])
local of_hour = redis.call('HGET', KEYS[2], this_hour)
if not of_hour then
  for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
    if (tonumber(string.match(name, '^%d+')) or 0) <= hour - kept then
      redis.call('HDEL', KEYS[2], name)
    end
  end
end
if of_hour or redis.call('HLEN', KEYS[2]) < tonumber(ARGV[9]) then
  redis.call('HSET', KEYS[2], this_hour, added(of_hour))
  redis.call('EXPIRE', KEYS[2], (kept + 1) * 3600)
end

local before = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], added(before))

local count = redis.call('HLEN', KEYS[1])
if not before and count > MOST_VERSIONS then
  local all, oldest, at = redis.call('HGETALL', KEYS[1]), nil, nil
  for i = 1, #all, 2 do
    local counted = last_counted(all[i + 1])
    if all[i] ~= ARGV[1] and (not at or counted < at) then oldest, at = all[i], counted end
  end
  redis.call('HDEL', KEYS[1], oldest)
  count = count - 1
end
return count
