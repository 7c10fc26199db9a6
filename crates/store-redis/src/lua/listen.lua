-- Adds to the topics that somebody listens to, and says which there are. ARGV: topics.
--
-- Whoever listens subscribes before it comes here, and afterwards looks at what it waits for: a commit before this is
-- seen, one after it is told. Nothing is ever taken off the list. A topic that nobody listens to any more costs speed.

-- With more than this many, everything is told: whoever commits has to know the list.
local MAX_TOPICS = 64
local EVERYTHING = '*'

local store, why = current(read_head(), '')
if not store then return why end

local topics = listened_topics()
local count, is_there = #topics, {}
for _, topic in ipairs(topics) do is_there[topic] = true end
for _, topic in ipairs(ARGV) do
  if not is_there[topic] and not is_there[EVERYTHING] then
    is_there[topic] = true
    topics[#topics + 1] = topic
  end
end
if #topics > count then
  if #topics > MAX_TOPICS then topics = { EVERYTHING } end
  redis.call('HSET', KEYS[1], 'topics', cmsgpack.pack(topics))
  local _
  _, store.listened = listened_topics()
  write_head(store)
end
return { answer(store), store.listened, unpack(topics) }
