-- Releases one grant of any holder at the request of an operator, and serves the next waiter.
--
-- KEYS     1  the lock
-- ARGV     1  the id of the grant, as list.lua reports it
-- Returns  1 released, 0 the grant no longer exists
-- Constants  HELD_CHANNEL, PROCESS_LEN, TOKEN_LEN: see lib.lua
--
-- Atomic because a holder that acquired the key meanwhile must not lose it, and because the next waiter must get the
-- key before another client can see the key free.
local text, id = peek(KEYS[1])
if text and id ~= ARGV[1] then
  return 0
end
local lock = open(KEYS[1], server_time())
if text then
  lock.mode, lock.value = 'x', text
else
  local foreign, refused = lock:foreign()
  if refused then
    return refused
  end
  if foreign or not lock.mode or lock.mode == 'latch' then
    return 0
  end
end
local value = nil
if lock.mode == 'x' then
  value = lock.value
else
  for _, member in ipairs(redis.call('ZRANGE', KEYS[1], '0', '-2')) do
    if redis.sha1hex(member) == ARGV[1] then
      value = member
    end
  end
end
if not value then
  return 0
end
lock:remove(value)
lock:serve()
-- If the message is lost, the holder's next renewal finds the loss. cluster.lua replaces only `redis.pcall`. So
-- `redis.call` publishes to all nodes of a Cluster, because a holder may be subscribed on any node.
local token = string.match(value, '^(%x+)')
if token and #token == TOKEN_LEN then
  pcall(redis.call, 'PUBLISH', HELD_CHANNEL .. string.sub(token, 1, PROCESS_LEN), 'forced ' .. token)
end
return 1
