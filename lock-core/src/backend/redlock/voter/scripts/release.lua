-- Frees a lock of a voter if the owner holds it: the counterpart of free.lua. A voter has no queue, so there is no
-- waiter to serve and no value is marked. Every other case falls through to the rest of release.lua, which follows this
-- text.
--
-- KEYS     1  the lock, or all locks of one grant
-- ARGV     as in release.lua
-- Returns  as release.lua
-- Constants  MARK_AT: see lib.lua
--
-- Atomic because the lock may expire and be acquired by another owner between the look and DEL.
if not ARGV[2] then
  -- A lock of this owner begins with its token; anything else is not this owner's plain lock.
  if redis.pcall('GETRANGE', KEYS[1], '0', MARK_AT) == ARGV[1] then
    redis.call('DEL', KEYS[1])
    return 1
  end
end

