-- Grants an exclusive lock: where the plain SET found the key taken, and where the fencing token is wanted with it.
--
-- KEYS     1  the lock
--          2  its last fencing token: `<number> <owner token>`
-- ARGV     1  owner token, 48 characters
--          2  the value to store: owner token, space, owner record
--          3  lease in ms
--          4  not after: server time in us; a request that comes later was given up by its client and must do nothing
--          5  how long to remember the last fencing token, in ms; "0": no fencing token is wanted
-- Returns  {1, now}                granted
--          {1, now, fence}         granted, with fencing token
--          {0, now, pttl, value}   held by another
--          {-1, now}               too late
--          with now = server time in us.
--
-- Atomic because nobody may take the key between the look and the write, and because the fencing token must belong
-- to this grant. All reads come before the first write, so that a key of another type fails the script as a whole.
-- Asked again by its owner it answers granted, with the same fencing token, and never shortens the lease.

-- Before Redis 7, a script that asks for the time must say that its effects are replicated, not its text.
if redis.replicate_commands then redis.replicate_commands() end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then
  return {-1, now}
end

local held = redis.call('GET', KEYS[1])
local again = held and string.sub(held, 1, 48) == ARGV[1]
if held and not again then
  return {0, now, redis.call('PTTL', KEYS[1]), held}
end

local fenced = ARGV[5] ~= '0'
local fence
if fenced then
  local last = redis.call('GET', KEYS[2])
  if last then
    local number, owner = string.match(last, '^(%d+) (%x+)$')
    if not number then
      return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is no fencing token')
    end
    number = tonumber(number)
    if again and owner == ARGV[1] then
      fence = number
    elseif number >= now then
      -- The server's clock was set back: the order of the tokens comes from the last one.
      fence = number + 1
    end
  end
  fence = fence or now
end

if not again then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if not fenced then
  return {1, now}
end
-- `%.0f` because Lua's own conversion keeps 14 digits and these numbers have 16.
redis.call('SET', KEYS[2], string.format('%.0f', fence) .. ' ' .. ARGV[1], 'PX', ARGV[5])
return {1, now, fence}
