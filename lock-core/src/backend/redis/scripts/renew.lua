-- Extends locks, each only if it is its owner's, and only to a longer lease.
--
-- KEYS     the locks, at most 100, so that one script never keeps the server for long
-- ARGV     for each lock: owner token (48 characters), lease in ms
-- Returns  for each lock: 1 renewed, 0 not this owner's, or the text of the error that this lock alone met
--
-- Atomic because the lock may expire and be taken by another between the look and PEXPIRE; a renewal by key alone
-- would then extend the other's lock.
local answers = {}
for i, key in ipairs(KEYS) do
  local held = redis.pcall('GET', key)
  if type(held) == 'table' and held.err then
    -- Another type of data is not this owner's lock; any other error says nothing about it.
    if string.find(held.err, 'WRONGTYPE', 1, true) then
      answers[i] = 0
    else
      answers[i] = held.err
    end
  elseif held and string.sub(held, 1, 48) == ARGV[2 * i - 1] then
    local lease = ARGV[2 * i]
    if redis.call('PTTL', key) < tonumber(lease) then
      redis.call('PEXPIRE', key, lease)
    end
    answers[i] = 1
  else
    answers[i] = 0
  end
end
return answers
