-- What every script starts with. KEYS: 1 what is known of the store, 2 the names in order, 3 the records.

local FORMAT = '1'
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
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- The store as it stands, with its clock; or nil and why not. `floor` is what the clock must be showing at
-- least, as the client counted on from the last answer.
local function current(floor)
  local is = redis.call('HMGET', KEYS[1], 'format', 'run', 'revision', 'last_ms', 'offset_ms')
  if not is[1] then return nil, 'missing' end
  if is[1] ~= FORMAT then return nil, 'newer' end
  local store = { run = is[2], revision = tonumber(is[3]), last = tonumber(is[4]), offset = tonumber(is[5]) }
  local server = server_ms()
  store.now = server + store.offset
  if store.now < store.last then
    -- The server's clock went back. Time goes on from where it was.
    store.now = math.max(store.last, math.min(tonumber(floor) or 0, store.last + MAX_WITNESSED_MS))
    store.repaired = store.now - server
  end
  return store
end

local function answer(word, store)
  return { word, store.revision, store.now, store.repaired or store.offset }
end
