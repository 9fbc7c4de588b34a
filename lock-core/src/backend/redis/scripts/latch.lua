
-- Performs one step of a count-down latch.
--
-- KEYS     1  the latch: a hash of `count`, `set` (the token that set it) and one field for each token that counted
-- ARGV     1  `set`, `count`, `wait` or `look`
--          2  lease in ms; for `look` "0"
--          3  owner token; for `wait` the 32 characters of the process to notify; for `look` ""
--          4  the count, for `set`
-- Returns  {1, now, left, by us}   the latch is set: the remaining count, and whether ARGV 3 set the latch
--          {0, now}                the latch is not set
--          {-2, now, mode}         the key is in use as a lock
--          with now = server time in us.
--
-- Atomic because a count must reach zero only once, and the step that reaches zero must notify the waiters.
-- `{key}:l` is a hash: process -> the end of its subscription, server time in ms.
local now = server_time()
local key, step, lease, who = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local ears, ms = names_of(key) .. 'l', math.floor(now / 1000)
local lock = open(key, now)
local bad = lock:look()
if bad then
  return bad
end
if not lock.mode and lock:queued() then
  lock:serve()
end
if lock.mode and lock.mode ~= 'latch' then
  return {-2, now, lock.mode}
end
if not lock.mode then
  if step ~= 'set' then
    return {0, now}
  end
  redis.call('HSET', key, 'count', ARGV[4], 'set', who)
  redis.call('DEL', ears)
end

-- The hash has the fields `count` and `set`, and one field for each token that counted.
local function left()
  return math.max(tonumber(redis.call('HGET', key, 'count')) + 2 - redis.call('HLEN', key), 0)
end

local open_before = left() == 0
if step == 'count' and not open_before then
  redis.call('HSET', key, who, '1')
elseif step == 'wait' and not open_before then
  redis.call('HSET', ears, who, string.format('%.0f', ms + 1 + lease))
end
if step ~= 'look' then
  if redis.call('PTTL', key) < lease then
    redis.call('PEXPIRE', key, lease)
  end
  if redis.call('EXISTS', ears) == 1 and redis.call('PTTL', ears) < lease then
    redis.call('PEXPIRE', ears, lease)
  end
end
local now_left = left()
if now_left == 0 and not open_before then
  local heard = redis.call('HGETALL', ears)
  for i = 1, #heard, 2 do
    if tonumber(heard[i + 1]) >= ms then
      tell(heard[i], 'opened ' .. key)
    end
  end
  redis.call('DEL', ears)
end
return {1, now, now_left, redis.call('HGET', key, 'set') == who and 1 or 0}
