-- board_head: read the head of a pool's queue; its keys are those of
-- board_prelude.
-- ARGV[1] pool    whose worker reads
-- ARGV[2] first   jobs to skip
-- ARGV[3] count   jobs to return
-- reply   {job, its line, document, notes, job...}
local skipped, count = tonumber(ARGV[2]), tonumber(ARGV[3])
local depth = skipped + count
-- Entries of one tenant that are read at once.
local AT_ONCE = 16
local pools = { '-', ARGV[1] }

local tenants, known = {}, {}
for _, pool in ipairs(pools) do
  for _, member in ipairs(members(TURNS, pool .. '\0', nil, depth)) do
    local pass, name = string.match(member, '^%Z+%z(%d+)%z(.+)$')
    if not known[name] then
      known[name] = { name = name, pass = tonumber(pass), lists = {} }
      tenants[#tenants + 1] = known[name]
      for i = 1, #pools do known[name].lists[i] = { entries = {}, at = 1, more = true } end
    end
  end
end

-- The next entry of one of a tenant's queues, or nil.
local function next_of(tenant, i)
  local list = tenant.lists[i]
  if list.at > #list.entries and list.more then
    local prefix = pools[i] .. '\0' .. tenant.name .. '\0'
    list.entries = members(QUEUE, prefix, list.last, AT_ONCE)
    list.at, list.more = 1, #list.entries == AT_ONCE
    list.last = list.entries[#list.entries]
  end
  return list.entries[list.at]
end

local chosen = {}
while #chosen < depth and #tenants > 0 do
  local at = 1
  for i = 2, #tenants do
    local one, best = tenants[i], tenants[at]
    if one.pass < best.pass or (one.pass == best.pass and one.name < best.name) then at = i end
  end
  local tenant, from, least = tenants[at], nil, nil
  for i = 1, #pools do
    local member = next_of(tenant, i)
    -- Of one rank the name decides.
    local place = member and string.match(member, '^%Z+%z%Z+%z(.+)$')
    if place and (not least or place < least) then from, least = i, place end
  end
  if from then
    tenant.lists[from].at = tenant.lists[from].at + 1
    local job = string.match(least, '^%d+%z(.+)$')
    local one = standing(job)
    if one then
      chosen[#chosen + 1] = job
      tenant.pass = tenant.pass + math.floor(SCALE / one.weight)
    end
  else
    table.remove(tenants, at)
  end
end
local asked = {}
for i = skipped + 1, #chosen do asked[#asked + 1] = chosen[i] end
return standings(asked)
