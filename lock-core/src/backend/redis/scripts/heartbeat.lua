
-- Records the heartbeat of a waiter, and serves the queue if the lock is free. So a heartbeat also finds changes
-- without a message: an expired lease, a key that a client of another language deleted, or a lost message.
--
-- KEYS     1  the lock
-- ARGV     1  owner token, 48 characters
--          2  the value to store: owner token, space, owner record
--          3  lease in ms
--          4  mode: `x`, `s`, `p<of>` or `p<of>x<n>`
-- Returns  {1, now, waiters}                              granted, for the whole lease
--          {0, now, pttl, holder, others, place, own}     the owner stays queued; place: its position
--          {-1, now}                                      the owner has no queue entry, and must not be used again
--          with now = server time in us.
--
-- Atomic because the lock must not be granted to another waiter between the check of the entry and the new deadline.
-- The deadline is written before the queue is served: otherwise a waiter that was paused would be dropped by its own
-- heartbeat. The script also drops dead neighbours in the queue, and marks the value of an exclusive holder, so that
-- its release serves the queue.
local now = server_time()
local token, value, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local lock = open(KEYS[1], now)
local bad = lock:look()
if bad then
  return bad
end
local mine = lock:granted(token, value, ARGV[4])
if mine then
  lock:extend(mine, lease)
  return {1, now, lock:waiters()}
end
if not lock:waits(token) then
  -- An entry in only one of the two keys does not count. The entry is removed, so that it is never served.
  lock:leave(token)
  return {-1, now}
end
lock:stay(token, value, ARGV[4], lease)
local won, more = false, false
if lock.mode ~= 'x' then
  local _
  won, _, more = lock:serve(token, lease)
end
if won then
  return {1, now, lock:waiters()}
end
-- The holder may have acquired the key with a plain SET while this owner waited, or a failover may have lost the mark.
lock:contend(false)
lock:tidy(token)
return lock:held(token, ARGV[4], more)
