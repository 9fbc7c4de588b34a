-- Frees a lock of a voter if it is its owner's. The other half of the hot path: a voter has no queue, so there is nobody
-- to serve. Whatever else release.lua does is done by the rest of that script, which stands behind it.
--
-- KEYS     1  the lock, or all locks of one grant
-- ARGV     as in release.lua
-- Returns  as release.lua
-- Constants  TOKEN_END: see lib.lua
--
-- Atomic because the lock may expire and be taken by another between the look and DEL.
if not ARGV[2] then
  -- The token is at the very beginning or it is not ours.
  if redis.pcall('GETRANGE', KEYS[1], '0', TOKEN_END) == ARGV[1] then
    redis.call('DEL', KEYS[1])
    return 1
  end
end

