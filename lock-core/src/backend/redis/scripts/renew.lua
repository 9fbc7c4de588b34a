-- Extends locks, each only if it is its owner's, and only to a longer lease.
--
-- KEYS     the locks, at most 100, so that one script never keeps the server for long
-- ARGV     for each lock: owner token (48 characters), or the whole value where the grant may be shared; lease in ms
--          then, for each lock with a fencing token: the lock's number; the last token that was numbered in its process,
--          "0": none; how long to remember the last token from now, in ms
-- Returns  for each lock: 0 not this owner's, 1 + how many wait when it was renewed, or the text of the error that
--          this lock alone met
-- Constants  VALUE_END: see lib.lua
--
-- Atomic because the lock may expire and be taken by another between the look and PEXPIRE; a renewal by key alone
-- would then extend the other's lock.
local answers, others = {}, nil
-- Redis 7 has the number, and a PEXPIRE that never shortens; before it that takes a look.
local longer = redis.REDIS_VERSION_NUM
for i, key in ipairs(KEYS) do
  local owner = ARGV[2 * i - 1]
  -- A missing key reads like an empty text.
  local held = redis.pcall('GETRANGE', key, '0', VALUE_END)
  if type(held) == 'string' and held:find(owner, 1, true) == 1 then
    local lease = ARGV[2 * i]
    -- Always a write: see `extend` in the library.
    if not longer or redis.call('PEXPIRE', key, lease, 'GT') == 0 then
      redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
    end
    -- As `names_of` in the library.
    local names = '{' .. key .. '}:'
    if string.find(key, '}', 1, true) then
      names = (string.match(key, '^[^{]*({[^}]+})') or '') .. names
    end
    -- Refused where a Cluster has moved this key of the two already: the renewal counts all the same.
    local waiting = redis.pcall('HLEN', names .. 'w')
    answers[i] = 1 + (type(waiting) == 'number' and waiting or 0)
  elseif type(held) == 'string' then
    answers[i] = 0
  elseif string.find(held.err, 'WRONGTYPE', 1, true) then
    others = others or {}
    others[#others + 1] = i
  else
    answers[i] = held.err
  end
end
if not others and #ARGV == 2 * #KEYS then
  return answers
end
