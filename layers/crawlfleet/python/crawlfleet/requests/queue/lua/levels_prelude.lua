-- Stands after the prelude before the scripts that touch the queue: a list for each priority 0 to 10.

local LEVELS, USUAL = 11, 5

-- The priority that an entry in our spelling travels with; the usual one is not written down.
local function level_of(entry)
  local at = string.find(entry, '"p":', -7, true)
  return at and tonumber(string.sub(entry, at + 4, -2)) or USUAL
end

-- Pushes each of the lines, in their order, to the list of its priority; the keys of these begin at
-- KEYS[first]. Returns how many they are.
local function push(command, first, entries)
  local by_level = {}
  for _, entry in ipairs(entries) do
    local level = level_of(entry)
    local part = by_level[level] or {}
    by_level[level], part[#part + 1] = part, entry
  end
  for level = 0, LEVELS - 1 do
    local part = by_level[level]
    if part then apply(command, KEYS[first + level], part) end
  end
  return #entries
end

-- How many entries all lists hold.
local function queued(first)
  local length = 0
  for level = 0, LEVELS - 1 do length = length + redis.call('LLEN', KEYS[first + level]) end
  return length
end

-- Adds to a reply of each priority that has any: itself, how many, the entry to be served next.
local function add_heads(reply, first)
  for level = 0, LEVELS - 1 do
    local length = redis.call('LLEN', KEYS[first + level])
    if length > 0 then
      reply[#reply + 1] = level
      reply[#reply + 1] = length
      reply[#reply + 1] = redis.call('LINDEX', KEYS[first + level], -1)
    end
  end
  return reply
end
