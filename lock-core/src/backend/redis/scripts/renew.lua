-- Extends the leases of locks. A lease is extended only if its owner holds the lock, and it is never shortened.
--
-- KEYS     the locks, at most 100, so that one script never blocks the server for long
-- ARGV     for each lock: owner token (48 characters), or the whole value if the grant may be shared; lease in ms
--          then, for each lock with a fencing token: the lock's number; the last token that its process made itself
--          ("0" for none); how long to remember the last token from now, in ms
-- Returns  for each lock: 0 if this owner does not hold the lock; 1 + the number of waiters if the lease was renewed;
--          or the text of an error that concerns this lock alone
-- Constants  TOKEN_LEN, VALUE_END: see lib.lua
--
-- Atomic because the lock may expire between the read and PEXPIRE, and another owner may acquire it. The renewal would
-- then extend the lease of that owner.
local answers, others = {}, nil
-- Redis 7 defines this number, and its PEXPIRE with GT never shortens an expiry. On an older server, the script must
-- read the ttl first.
local longer = redis.REDIS_VERSION_NUM
for i, key in ipairs(KEYS) do
  local owner = ARGV[2 * i - 1]
  -- A waiter may have marked the value of an exclusive grant, so only the token is compared.
  local token = #owner > TOKEN_LEN and string.sub(owner, 1, TOKEN_LEN) or owner
  -- For a missing key, GETRANGE returns an empty string, which contains no owner.
  local held = redis.pcall('GETRANGE', key, '0', VALUE_END)
  if type(held) == 'string' and held:find(token, 1, true) == 1 then
    local lease = ARGV[2 * i]
    -- Always writes: see `extend` in lib.lua. If the lease would not become longer, GT answers 0 and writes nothing.
    if not longer or redis.call('PEXPIRE', key, lease, 'GT') == 0 then
      redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
    end
    -- The same as `names_of` in lib.lua.
    local names = '{' .. key .. '}:'
    if string.find(key, '}', 1, true) then
      names = (string.match(key, '^[^{]*({[^}]+})') or '') .. names
    end
    -- If the helper key has already moved to another node, this node refuses the read. The renewal still counts.
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
