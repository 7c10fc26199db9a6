-- Transactions that waited together, each on its own: all or nothing of each, one after the other. ARGV: 1 the
-- latest time one was decided for (or ''), 2 allowed lag, 3 run, 4 highest revision this client has seen; then
-- for each transaction: decided for (or ''), how many names to look at, how many of them are expected at a
-- version, how many puts, deletions and channels; the names; the versions; name, stamp and value of each put;
-- the names of deletions; of each channel its name and what to tell there.
--
-- A server spends its time here on calls and on numbers as text, so there are as few of both as can be.

local FIRST = 5

local call = redis.call
local store, why = current(ARGV[1])
if not store then return { why } end
if store.run ~= ARGV[3] then return { 'restarted' } end
local revision, now, before = store.revision, store.now, store.revision
if revision < tonumber(ARGV[4]) then return { 'behind' } end
if call('HLEN', KEYS[3]) ~= call('ZCARD', KEYS[2]) then return { 'damaged' } end

local lag = tonumber(ARGV[2])
-- What is to be told at the end, by channel.
local heard, has_told, is_timed = nil, false, false

-- Before anything is written, since a user who may not publish must not leave half a commit behind. Once that
-- is known the rest is told together, at the end.
local function tell(first, last)
  if not has_told then
    for i = first, last, 2 do call('PUBLISH', ARGV[i], ARGV[i + 1]) end
    has_told = true
    return
  end
  heard = heard or {}
  for i = first, last, 2 do
    heard[ARGV[i]] = (heard[ARGV[i]] or '') .. ARGV[i + 1]
  end
end

local function put(first, last, known)
  local version = string.format('%016d', revision)
  local entries, records, count, added = {}, {}, 0, 0
  for i = first, last, 3 do
    local name = ARGV[i]
    local old = known[name]
    if not old then
      entries[added + 1], entries[added + 2] = 0, name
      added = added + 2
    end
    local stamp = version
    if old and ARGV[i + 1] == 'keep' then stamp = string.sub(old, 17, 32) end
    records[count + 1], records[count + 2] = name, version .. stamp .. ARGV[i + 2]
    count = count + 2
  end
  if added > 0 then call('ZADD', KEYS[2], unpack(entries)) end
  call('HSET', KEYS[3], unpack(records))
end

-- For each transaction its revision, or that of a conflict with the records that were found.
local outcomes, ended, place, last_place = {}, 0, FIRST, #ARGV
while place <= last_place do
  local at = tonumber(ARGV[place])
  local looked, expected = tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
  local names = place + 6
  local versions = names + looked
  local puts = versions + expected
  local deletions = puts + 3 * ARGV[place + 3]
  local channels = deletions + ARGV[place + 4]
  place = channels + 2 * ARGV[place + 5]

  local found = looked > 0 and call('HMGET', KEYS[3], unpack(ARGV, names, versions - 1)) or {}
  local holds = not at or (at <= now and now - at <= lag)
  for i = 1, expected do
    if (found[i] and string.sub(found[i], 1, 16) or '0') ~= ARGV[versions + i - 1] then holds = false end
  end
  ended = ended + 1
  if not holds then
    outcomes[ended] = { revision, found }
  else
    if channels > puts then
      revision = revision + 1
      is_timed = is_timed or at ~= nil
      tell(channels, place - 1)
      if deletions > puts then
        local known = {}
        for i = 1, looked do known[ARGV[names + i - 1]] = found[i] end
        put(puts, deletions - 1, known)
      end
      if channels > deletions then
        call('ZREM', KEYS[2], unpack(ARGV, deletions, channels - 1))
        call('HDEL', KEYS[3], unpack(ARGV, deletions, channels - 1))
      end
    end
    outcomes[ended] = revision
  end
end

if heard then
  for channel, told in pairs(heard) do call('PUBLISH', channel, told) end
end
if is_timed then
  -- A time that was judged against the client's. Others are not recorded: they may be a jump that nobody saw yet.
  call('HSET', KEYS[1], 'revision', text(revision), 'last_ms', text(now))
  if store.repaired then call('HSET', KEYS[1], 'offset_ms', text(store.repaired)) end
elseif revision > before then
  call('HSET', KEYS[1], 'revision', text(revision))
end
return { 'ok', revision, now, store.repaired or store.offset, outcomes }
