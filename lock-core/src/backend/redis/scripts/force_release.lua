-- Takes one grant away from its holder, and serves the next: an operator has decided so.
--
-- KEYS     1  the lock
-- ARGV     1  which grant, as list.lua tells it
-- Returns  1 done, 0 there is no such grant any more
-- Constants  HELD_CHANNEL, PROCESS_LEN, TOKEN_LEN: see lib.lua
--
-- Atomic because a holder that came meanwhile must not be hit, and because the key must go to the next in the queue
-- before anybody else can see it free.
local text, id = peek(KEYS[1])
if text and id ~= ARGV[1] then
  return 0
end
local lock = open(KEYS[1], server_time())
if text then
  lock.mode, lock.value = 'x', text
elseif lock:look() or not lock.mode or lock.mode == 'latch' then
  return 0
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
-- Without it the holder finds out by its next renewal. By `redis.call`, also on a Cluster: a message that all nodes hear,
-- because a holder listens on any of them.
local token = string.match(value, '^(%x+)')
if token and #token == TOKEN_LEN then
  pcall(redis.call, 'PUBLISH', HELD_CHANNEL .. string.sub(token, 1, PROCESS_LEN), 'forced ' .. token)
end
return 1
