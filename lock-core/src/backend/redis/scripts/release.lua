-- Frees a lock if it is its owner's: the other half of the hot path, so it does as little as it can.
--
-- KEYS     1  the lock
-- ARGV     1  owner token, 48 characters
-- Returns  1 freed, 0 nobody had it, -1 somebody else has it
--
-- Atomic because the lock may expire and be taken by another between the look and DEL.
local held = redis.call('GET', KEYS[1])
if not held then
  return 0
end
-- `find` compares in place; `sub` would make a string first. The token is at the very beginning or it is not ours.
if held:find(ARGV[1], 1, true) == 1 then
  redis.call('DEL', KEYS[1])
  return 1
end
-- Kept by this owner and released once more, because the first answer was lost: see keep.lua.
if string.sub(held, -54) == ' kept=' .. ARGV[1] then
  return 1
end
return -1
