-- Frees a lock of a voter if it is its owner's. The other half of the hot path: a voter has no queue, so there is nobody
-- to serve. Whatever else release.lua does is done by the rest of that script, which stands behind it.
--
-- KEYS     1  the lock, or all locks of one grant
-- ARGV     as in release.lua
-- Returns  as release.lua
--
-- Atomic because the lock may expire and be taken by another between the look and DEL.
if not ARGV[2] then
  local held = redis.pcall('GET', KEYS[1])
  -- `find` compares in place; `sub` would make a string first. The token is at the very beginning or it is not ours.
  if type(held) == 'string' and held:find(ARGV[1], 1, true) == 1 then
    redis.call('DEL', KEYS[1])
    return 1
  end
end

