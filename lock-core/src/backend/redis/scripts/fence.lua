-- Makes the fencing token of a grant that did not bring one.
--
-- KEYS     1  the lock
--          2  its last fencing token: `<number> <owner token>`
-- ARGV     1  owner token, 48 characters
--          2  how long to remember the last fencing token, in ms
-- Returns  {1, now, fence}   the lock is this owner's
--          {0, now}          nobody has the lock
--          {-1, now}         somebody else has it
--          with now = server time in us.
--
-- Atomic because the number must be made while the lock is provably this owner's, and because two of them must never
-- read the same last number. The server's time as the lower bound keeps the numbers growing when the last one is
-- gone: after FLUSHALL, a failover or a restart without data.

-- Before Redis 7, a script that asks for the time must say that its effects are replicated, not its text.
if redis.replicate_commands then redis.replicate_commands() end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local held = redis.call('GET', KEYS[1])
if not held then
  return {0, now}
end
if string.sub(held, 1, 48) ~= ARGV[1] then
  return {-1, now}
end

local fence = now
local last = redis.call('GET', KEYS[2])
if last then
  local number, owner = string.match(last, '^(%d+) (%x+)$')
  if not number then
    return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is no fencing token')
  end
  number = tonumber(number)
  if owner == ARGV[1] then
    fence = number
  elseif number >= now then
    -- The server's clock was set back: the order of the tokens comes from the last one.
    fence = number + 1
  end
end
-- `%.0f` because Lua's own conversion keeps 14 digits and these numbers have 16.
redis.call('SET', KEYS[2], string.format('%.0f', fence) .. ' ' .. ARGV[1], 'PX', ARGV[2])
return {1, now, fence}
