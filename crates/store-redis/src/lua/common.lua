-- What every script starts with. KEYS: 1 what is known of the store, 2 the names in order, 3 the records.
--
-- Among the records, under the name that none of them can have, is the head: revision, recorded time, offset of the
-- clock, format, and the process of the server that has the data. So one call reads it together with records, one
-- writes it together with them, and no record can be lost with the head left behind.

local FORMAT = 2
local HEAD, HEAD_NAME = '>I8I8i8B', ''
-- In an answer: revision, time and offset.
local ANSWER = '>I8I8i8'
-- Revisions for each millisecond of an epoch's beginning: more than any server commits in one.
local PER_MS = 1024
-- How far past the last recorded time a client's word is taken after the server's clock went back.
local MAX_WITNESSED_MS = 5000

-- Whole numbers only. As an integer: printing a double takes several times as long.
local function text(number)
  return string.format('%d', number)
end

local function server_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The store with this head, and its clock; or nil and why not. `floor` is what the clock must be showing at least,
-- as the client counted on from the last answer.
local function current(head, floor)
  if not head then return nil, 'missing' end
  local revision, last, offset, format, rest = struct.unpack(HEAD, head)
  if format ~= FORMAT then return nil, 'format ' .. format end
  local server = server_ms()
  local store = { run = string.sub(head, rest), revision = revision, last = last, offset = offset }
  store.now = server + offset
  if store.now < last then
    -- The server's clock went back. Time goes on from where it was.
    store.now = math.max(last, math.min(tonumber(floor or 0) or 0, last + MAX_WITNESSED_MS))
    store.repaired = store.now - server
  end
  return store
end

local function read_head()
  return redis.call('HGET', KEYS[3], HEAD_NAME)
end

local function head_of(store)
  return struct.pack(HEAD, store.revision, store.last, store.offset, FORMAT) .. store.run
end

local function write_head(store)
  redis.call('HSET', KEYS[3], HEAD_NAME, head_of(store))
end

-- Every record has a name in the order of names. The head has none.
local function is_whole()
  return redis.call('HLEN', KEYS[3]) == redis.call('ZCARD', KEYS[2]) + 1
end

local function answer(store)
  return 'ok' .. struct.pack(ANSWER, store.revision, store.now, store.repaired or store.offset)
end
