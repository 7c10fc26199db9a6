-- What every script starts with. KEYS: 1 what is known of the store, 2 the names in order, 3 the records, 4 names that
-- were deleted and are still in the order.
--
-- Among the records, under the name that none of them can have, is the head: revision, recorded time, offset of the
-- clock, format, a hash of the listened topics, and the process of the server that has the data. So one call reads it
-- together with records, one writes it together with them, and no record can be lost with the head left behind.
--
-- A record is a byte, its version in 7 bytes, its stamp in 8, and its value. A deleted one is empty, and stays until its
-- name is swept out of the order: most names that are deleted come again, and nothing is as dear as changing the order.
-- Deleted names are on the list of those to sweep; the byte of a record is 1 if its name still is, from an earlier time.

local FORMAT = 3
local HEAD_NAME, FORMAT_AT, RUN_AT = '', 25, 42
-- In an answer, and at the beginning of the head: revision, time and offset.
local ANSWER = '>I8I8i8'
-- How far past the last recorded time a client's word is taken after the server's clock went back.
local MAX_WITNESSED_MS = 5000
