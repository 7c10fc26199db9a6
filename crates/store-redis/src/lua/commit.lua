-- All or nothing. ARGV: 1 decided for (or ''), 2 allowed lag, 3 run, 4 highest revision this client has seen,
-- 5 channel, 6 how many expectations; then name and version each; then name, what to do and value each.

local FIRST = 7
local at = tonumber(ARGV[1])

local store, why = current(ARGV[1])
if not store then return { why } end
if store.run ~= ARGV[3] then return { 'restarted' } end
if store.revision < tonumber(ARGV[4]) then return { 'behind' } end
if redis.call('HLEN', KEYS[3]) ~= redis.call('ZCARD', KEYS[2]) then return { 'damaged' } end

local expected = tonumber(ARGV[6])
local names, found, known = {}, {}, {}
for i = 1, expected do names[i] = ARGV[FIRST + 2 * (i - 1)] end
if expected > 0 then found = redis.call('HMGET', KEYS[3], unpack(names)) end

local holds = not at or (at <= store.now and store.now - at <= tonumber(ARGV[2]))
for i = 1, expected do
  local version = found[i] and string.sub(found[i], 1, 16) or '0'
  if version ~= ARGV[FIRST + 2 * (i - 1) + 1] then holds = false end
  known[names[i]] = found[i]
end
if not holds then
  local answered = answer('conflict', store)
  answered[5] = found
  return answered
end

local first_write = FIRST + 2 * expected
if #ARGV < first_write then return answer('ok', store) end

local revision = store.revision + 1
local version = string.format('%016.0f', revision)
local entries, records, gone, heard = {}, {}, {}, { version }
for i = first_write, #ARGV, 3 do
  local name, todo, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  heard[#heard + 1] = #name .. ':' .. name
  if todo == 'delete' then
    gone[#gone + 1] = name
  else
    local stamp = version
    if todo == 'keep' then
      local old = known[name]
      if old == nil then old = redis.call('HGET', KEYS[3], name) end
      if old then stamp = string.sub(old, 17, 32) end
    end
    entries[#entries + 1] = 0
    entries[#entries + 1] = name
    records[#records + 1] = name
    records[#records + 1] = version .. stamp .. value
  end
end

-- First of all, since a user who may not publish must not leave half a commit behind.
redis.call('PUBLISH', ARGV[5], table.concat(heard))
if #entries > 0 then
  redis.call('ZADD', KEYS[2], unpack(entries))
  redis.call('HSET', KEYS[3], unpack(records))
end
if #gone > 0 then
  redis.call('ZREM', KEYS[2], unpack(gone))
  redis.call('HDEL', KEYS[3], unpack(gone))
end
redis.call('HSET', KEYS[1], 'revision', text(revision))
if at then
  -- A time that was judged against the client's. Others are not recorded: they may be a jump that nobody saw yet.
  redis.call('HSET', KEYS[1], 'last_ms', text(store.now), 'offset_ms', text(store.repaired or store.offset))
end
store.revision = revision
return answer('ok', store)
