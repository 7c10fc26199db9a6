-- Transactions that waited together, each on its own: all or nothing of each, one after the other. ARGV: 1 run, 2
-- numbers (MessagePack), then the names of all, the values of all puts, and channels, each with what to tell there.
-- The numbers: highest revision this client has seen, latest time one was decided for (or false), allowed lag, how many
-- names there are; then of each transaction: decided for (or false), how many names; of each of its names: what is to
-- be done with it, and the version it is expected at (0: absent).
--
-- A server spends its time on calls, on answers of many parts, and on numbers as text. So all that the transactions
-- look at is read at once, judged here, and written at once.

-- What is to be done: a kind of write, and whether a version is expected.
local EXPECTED, NEW, KEEP, DELETE = 4, 1, 2, 3
local FIRST_NAME = 3
local VERSION, STAMPED, OUTCOME = '>I8', '>I8I8', '>BI8'

local call, pack, unpack_number = redis.call, struct.pack, struct.unpack
local numbers = cmsgpack.unpack(ARGV[2])
local seen, latest, lag, count = numbers[1], numbers[2], numbers[3], numbers[4]
local first_value = FIRST_NAME + count

local found = call('HMGET', KEYS[3], HEAD_NAME, unpack(ARGV, FIRST_NAME, first_value - 1))
local store, why = current(found[1], latest)
if not store then return why end
if store.run ~= ARGV[1] then return 'restarted' end
if store.revision < seen then return 'behind' end

-- Records that were written, as they are now (false: absent), and where in ARGV their names are. Any other is as found.
local is, written = {}, {}
local revision, now, before = store.revision, store.now, store.revision
local is_timed, outcomes, conflicts = false, '', nil
local name_at, value_at, number_at, last_number = FIRST_NAME, first_value, 5, #numbers

local function record_at(place)
  local record = is[ARGV[place]]
  if record == nil then return found[place - FIRST_NAME + 2] end
  return record
end

while number_at < last_number do
  local at, next_name = numbers[number_at], name_at + numbers[number_at + 1]
  local first = number_at + 2
  number_at = first + 2 * (next_name - name_at)

  local holds, puts, writes = not at or (at <= now and now - at <= lag), 0, 0
  local number = first
  for place = name_at, next_name - 1 do
    local what = numbers[number]
    if what >= EXPECTED then
      local record = record_at(place)
      if (record and unpack_number(VERSION, record) or 0) ~= numbers[number + 1] then holds = false end
      what = what - EXPECTED
    end
    if what ~= 0 then writes = writes + 1 end
    if what == NEW or what == KEEP then puts = puts + 1 end
    number = number + 2
  end

  if not holds then
    local records, expected = {}, 0
    for place = name_at, next_name - 1 do
      if numbers[first + 2 * (place - name_at)] >= EXPECTED then
        expected = expected + 1
        records[expected] = record_at(place)
      end
    end
    conflicts = conflicts or {}
    conflicts[#conflicts + 1] = records
  elseif writes > 0 then
    revision = revision + 1
    if at then is_timed = true end
    local stamped, value = pack(STAMPED, revision, revision), value_at
    for place = name_at, next_name - 1 do
      local what, name = numbers[first + 2 * (place - name_at)] % EXPECTED, ARGV[place]
      if what ~= 0 then
        local old = record_at(place)
        if is[name] == nil then written[#written + 1] = place end
        if what == DELETE then
          is[name] = false
        else
          local prefix = stamped
          if what == KEEP and old then prefix = pack(VERSION, revision) .. string.sub(old, 9, 16) end
          is[name] = prefix .. ARGV[value]
          value = value + 1
        end
      end
    end
  end
  outcomes = outcomes .. pack(OUTCOME, holds and 1 or 0, revision)
  name_at, value_at = next_name, value_at + puts
end

if revision > before then
  -- Before anything is written, since a user who may not publish must not leave half a commit behind.
  for i = value_at, #ARGV, 2 do call('PUBLISH', ARGV[i], ARGV[i + 1]) end

  store.revision = revision
  if is_timed then
    -- A time that was judged against the client's. Others are not recorded: they may be a jump that nobody saw yet.
    store.last, store.offset = now, store.repaired or store.offset
  end
  local puts, added, removed = { HEAD_NAME, head_of(store) }, {}, {}
  for i = 1, #written do
    local name, was = ARGV[written[i]], found[written[i] - FIRST_NAME + 2]
    local record = is[name]
    if record then
      local count = #puts
      puts[count + 1], puts[count + 2] = name, record
      if not was then
        count = #added
        added[count + 1], added[count + 2] = 0, name
      end
    elseif was then
      removed[#removed + 1] = name
    end
  end
  call('HSET', KEYS[3], unpack(puts))
  if added[1] then call('ZADD', KEYS[2], unpack(added)) end
  if removed[1] then
    call('HDEL', KEYS[3], unpack(removed))
    call('ZREM', KEYS[2], unpack(removed))
  end
end

local answered = answer(store) .. outcomes
if not conflicts then return answered end
table.insert(conflicts, 1, answered)
return conflicts
