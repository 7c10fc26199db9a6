-- Transactions that waited together, each on its own: all or nothing of each, one after the other. ARGV: 1 the
-- latest time one was decided for (or ''), 2 allowed lag, 3 run, 4 highest revision this client has seen,
-- 5 channel; then for each transaction: decided for (or ''), how many expectations, how many writes; name and
-- version each; name, what to do and value each.

local FIRST = 6

local store, why = current(ARGV[1])
if not store then return { why } end
if store.run ~= ARGV[3] then return { 'restarted' } end
if store.revision < tonumber(ARGV[4]) then return { 'behind' } end
if redis.call('HLEN', KEYS[3]) ~= redis.call('ZCARD', KEYS[2]) then return { 'damaged' } end

local lag, before = tonumber(ARGV[2]), store.revision
local heard, has_told, is_timed = {}, false, false

local function tell()
  redis.call('PUBLISH', ARGV[5], string.format('%016.0f', store.revision) .. table.concat(heard))
  heard, has_told = {}, true
end

-- What is stored under the expected names, and whether that is what was expected.
local function look(first, expected)
  local names, known, holds = {}, {}, true
  if expected == 0 then return {}, known, holds end
  for i = 1, expected do names[i] = ARGV[first + 2 * (i - 1)] end
  local found = redis.call('HMGET', KEYS[3], unpack(names))
  for i = 1, expected do
    local version = found[i] and string.sub(found[i], 1, 16) or '0'
    if version ~= ARGV[first + 2 * (i - 1) + 1] then holds = false end
    known[names[i]] = found[i]
  end
  return found, known, holds
end

local function write(first, writes, known)
  store.revision = store.revision + 1
  local version = string.format('%016.0f', store.revision)
  local entries, records, gone = {}, {}, {}
  for i = first, first + 3 * writes - 1, 3 do
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
  -- Before anything is written, since a user who may not publish must not leave half a commit behind. Once
  -- that is known the rest is told together, at the end.
  if not has_told then tell() end
  if #entries > 0 then
    redis.call('ZADD', KEYS[2], unpack(entries))
    redis.call('HSET', KEYS[3], unpack(records))
  end
  if #gone > 0 then
    redis.call('ZREM', KEYS[2], unpack(gone))
    redis.call('HDEL', KEYS[3], unpack(gone))
  end
end

-- For each transaction its revision, or that of a conflict with the records that were found.
local outcomes = {}
local place = FIRST
while place <= #ARGV do
  local at, expected, writes = tonumber(ARGV[place]), tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
  local first_expected = place + 3
  local first_write = first_expected + 2 * expected
  place = first_write + 3 * writes
  local found, known, holds = look(first_expected, expected)
  if not holds or at and (at > store.now or store.now - at > lag) then
    outcomes[#outcomes + 1] = { store.revision, found }
  else
    if writes > 0 then
      write(first_write, writes, known)
      is_timed = is_timed or at ~= nil
    end
    outcomes[#outcomes + 1] = store.revision
  end
end

if #heard > 0 then tell() end
if is_timed then
  -- A time that was judged against the client's. Others are not recorded: they may be a jump that nobody saw yet.
  redis.call('HSET', KEYS[1], 'revision', text(store.revision), 'last_ms', text(store.now),
    'offset_ms', text(store.repaired or store.offset))
elseif store.revision > before then
  redis.call('HSET', KEYS[1], 'revision', text(store.revision))
end
local answered = answer('ok', store)
answered[5] = outcomes
return answered
