-- What every script but the commit goes on with.

-- Format and hash, behind what the head begins with.
local HEAD_REST = '>Bc16'
-- Revisions for each millisecond of an epoch's beginning: more than any server commits in one.
local PER_MS = 1024

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
  -- In the heads of all formats in the same place.
  local format = string.byte(head, FORMAT_AT)
  if format ~= FORMAT then return nil, 'format ' .. format end
  local revision, last, offset = struct.unpack(ANSWER, head)
  local _, listened, rest = struct.unpack(HEAD_REST, head, FORMAT_AT)
  local server = server_ms()
  local store = { run = string.sub(head, rest), revision = revision, last = last, offset = offset, listened = listened }
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

local function write_head(store)
  local head = struct.pack(ANSWER, store.revision, store.last, store.offset)
  redis.call('HSET', KEYS[3], HEAD_NAME, head .. struct.pack(HEAD_REST, FORMAT, store.listened) .. store.run)
end

-- The listened topics, and their hash: whoever has seen the hash knows the list.
local function listened_topics()
  local packed = redis.call('HGET', KEYS[1], 'topics') or cmsgpack.pack({})
  return cmsgpack.unpack(packed), string.sub(redis.sha1hex(packed), 1, 16)
end

-- Every record has a name in the order of names, also a deleted one. The head has none.
local function is_whole()
  return redis.call('HLEN', KEYS[3]) == redis.call('ZCARD', KEYS[2]) + 1
end

local function answer(store)
  return 'ok' .. struct.pack(ANSWER, store.revision, store.now, store.repaired or store.offset)
end
