-- Transactions that waited together, each on its own: all or nothing of each, one after the other. ARGV: 1 what the head
-- must end with, 2 numbers, then the names, each once, the values of all puts, and channels, each with what to tell
-- there. The numbers: highest revision this client has seen, latest time one was decided for, allowed lag, how many
-- names there are; then of each transaction: when it was decided for (or 0), how much it expects, writes and puts; of
-- each expectation: which name, and its version (0: absent); of each write: which name, and what is to be done. Names are
-- counted from 2, as they are found behind the head.
--
-- A server spends its time on calls, on what a script makes and leaves to be cleared away, and on numbers as text. So all
-- that the transactions look at is read at once, judged here without functions and with few tables, and written at once.

local BATCH, TXN, EXPECTATION, WRITE = '>I8I8I4I4', '>I8I2I2I2', '>I2I8', '>I2B'
local EXPECTATION_BYTES, WRITE_BYTES = 10, 3
local VERSION, STAMPS, PREFIX = '>BI7', '>I8I8', '>BI7I8'
local KEEP, DELETE = 2, 3
-- So many deleted names may lie about, and so many of them are swept at once when there are more.
local MAX_UNSWEPT, SWEPT_AT_ONCE = 1024, 64

local call, pack, read, cut, byte = redis.call, struct.pack, struct.unpack, string.sub, string.byte
local names, records, numbers = KEYS[2], KEYS[3], ARGV[2]
local seen, floor, lag, count, at_number = read(BATCH, numbers)

local found = call('HMGET', records, HEAD_NAME, unpack(ARGV, 3, 2 + count))
local head = found[1]
if not head then return 'missing' end
if cut(head, FORMAT_AT) ~= ARGV[1] then
  if byte(head, FORMAT_AT) ~= FORMAT then return 'format ' .. byte(head, FORMAT_AT) end
  if cut(head, RUN_AT) ~= cut(ARGV[1], RUN_AT - FORMAT_AT + 1) then return 'restarted' end
  return 'listened'
end
local revision, last, offset = read(ANSWER, head)
if revision < seen then return 'behind' end

-- As in `current`.
local time = call('TIME')
local server = time[1] * 1000 + math.floor(time[2] / 1000)
local now, repaired = server + offset, offset
if now < last then
  now = math.max(last, math.min(floor, last + MAX_WITNESSED_MS))
  repaired = now - server
end

local before, value_at, is_timed = revision, 3 + count, false
-- What is written: the head, then names and records, as they come; the last of a name stays.
local puts, last_put, added, deleted = { HEAD_NAME, head, nil, nil, nil, nil }, 2, nil, nil
local outcomes, conflicts, last_number = '', nil, #numbers
while at_number < last_number do
  local at, expected, writes, values
  at, expected, writes, values, at_number = read(TXN, numbers, at_number)
  local expectations, holds = at_number, at == 0 or (at <= now and now - at <= lag)
  for _ = 1, expected do
    local place, wanted, flag
    place, wanted, at_number = read(EXPECTATION, numbers, at_number)
    local record, version = found[place], 0
    if record and record ~= '' then flag, version = read(VERSION, record) end
    if version ~= wanted then holds = false end
  end

  if not holds then
    local are = {}
    for i = 1, expected do
      are[i] = found[(read(EXPECTATION, numbers, expectations + (i - 1) * EXPECTATION_BYTES))]
    end
    conflicts = conflicts or {}
    conflicts[#conflicts + 1] = are
    outcomes = outcomes .. '0'
    at_number, value_at = at_number + writes * WRITE_BYTES, value_at + values
  else
    outcomes = outcomes .. '1'
    if writes > 0 then
      revision = revision + 1
      is_timed = is_timed or at ~= 0
    end
    for _ = 1, writes do
      local place, what
      place, what, at_number = read(WRITE, numbers, at_number)
      local name, was, is = ARGV[place + 1], found[place], nil
      local is_listed = was and (was == '' or byte(was) == 1)
      if what ~= DELETE then
        local stamp, version = revision, nil
        if what == KEEP and was and was ~= '' then version, stamp = read(STAMPS, was) end
        is = pack(PREFIX, is_listed and 1 or 0, revision, stamp) .. ARGV[value_at]
        value_at = value_at + 1
        if not was then
          added = added or {}
          added[#added + 1] = 0
          added[#added + 1] = name
        end
      elseif was and was ~= '' then
        is = ''
        if not is_listed then
          deleted = deleted or {}
          deleted[#deleted + 1] = name
        end
      end
      if is then
        found[place] = is
        puts[last_put + 1], puts[last_put + 2] = name, is
        last_put = last_put + 2
      end
    end
  end
end

if revision > before then
  -- Before anything is written, since a user who may not publish must not leave half a commit behind.
  for i = value_at, #ARGV, 2 do call('PUBLISH', ARGV[i], ARGV[i + 1]) end

  -- A time is recorded that was judged against the client's. Others may be a jump that nobody saw yet.
  if is_timed then last, offset = now, repaired end
  puts[2] = pack(ANSWER, revision, last, offset) .. ARGV[1]
  call('HSET', records, unpack(puts, 1, last_put))
  if added then call('ZADD', names, unpack(added)) end
  local unswept = deleted and call('RPUSH', KEYS[4], unpack(deleted)) or 0
  if unswept > MAX_UNSWEPT then
    local swept = call('LPOP', KEYS[4], unswept - MAX_UNSWEPT + SWEPT_AT_ONCE)
    local are, gone, kept = call('HMGET', records, unpack(swept)), {}, {}
    for i = 1, #swept do
      if are[i] == '' then
        gone[#gone + 1] = swept[i]
      elseif are[i] then
        kept[#kept + 1] = swept[i]
        kept[#kept + 1] = '\0' .. cut(are[i], 2)
      end
    end
    if kept[1] then call('HSET', records, unpack(kept)) end
    if gone[1] then
      call('HDEL', records, unpack(gone))
      call('ZREM', names, unpack(gone))
    end
  end
end

local answered = 'ok' .. pack(ANSWER, revision, now, repaired) .. outcomes
if not conflicts then return answered end
table.insert(conflicts, 1, answered)
return conflicts
