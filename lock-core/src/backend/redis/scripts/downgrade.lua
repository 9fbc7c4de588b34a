
-- Turns an exclusive lock into a shared one for its owner, and serves the readers at the head of the queue.
--
-- KEYS     1  the lock
-- ARGV     1  owner token, 48 characters
--          2  the value to store: owner token, space, owner record
--          3  lease in ms
-- Returns  {1, now, waiters}   the lock is shared now, or was already
--          {0, now}            the lock is not this owner's
--          with now = server time in us.
--
-- Atomic because no other claim may acquire the key between the end of the exclusive lock and the shared grant.
local now = server_time()
local value, lease = ARGV[2], tonumber(ARGV[3])
local lock = open(KEYS[1], now)
local bad = lock:look()
if bad then
  return bad
end
local mine = lock:mine(ARGV[1], value)
if not mine then
  return {0, now}
end
if lock.mode == 'x' then
  -- The type of the key changes from a string to a sorted set, so the key is deleted before the shared holder is added.
  lock:remove(mine)
  lock:put(value, 's', lease)
  lock:serve()
else
  -- The lock is already shared: the first answer was lost, and this is a repeated request.
  lock:extend(mine, lease)
end
return {1, now, lock:waiters()}
