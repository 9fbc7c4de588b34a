
-- Lists the locks among some keys, with their holders and waiters, for an operator.
--
-- KEYS     candidates
-- ARGV     1  "1": a string that another library wrote is a lock too
--          2  the largest number of waiters to report for a key
--          3  the largest number of holders to report for a key
--          4  "1": a key with other data makes the script fail, as it makes an acquire fail; otherwise it is skipped
-- Returns  {the number of keys that were examined, {lock ..}}, with one lock for each key that holds a lock:
--          {key, mode, {{id, record, pttl, kept, granted} ..}, number of holders or of their permits,
--          number of waiters, {{mode, record} ..}}
--          mode: `x`, `s` or `p<of>`, for a waiter also `p<of>x<n>`; id: see `peek`, or the SHA-1 of the member;
--          record: the owner record, "" for a lock of another library; pttl: ms, -1 without an expiry; kept: 1 if the
--          key is kept after a release; granted: the time of the grant in ms, "" if this time is not stored, for
--          example because the grant came within about a second of the request. No answer contains an owner token.
-- Constants  TOKEN_LEN: see lib.lua
--
-- Atomic because the holders and the waiters of a key must be read at the same moment. The script changes nothing. The
-- keys may belong to other programs. So the script never reads a long value as a whole, and stops when it has read
-- enough.
local now = math.floor(server_time() / 1000)
local zeros = string.rep('0', TOKEN_LEN)
-- After this number of keys, holders and waiters, the script stops. It examines at most this number of waiters of one
-- queue, and counts all later waiters as alive.
local ENOUGH, spent = 1000, 0

-- Returns the holder that a stored value describes, or nil if the value does not belong to this library.
local function holder(value, id, left)
  local token, rest = string.match(value, '^(%x+) (.*)$')
  if not token or #token ~= TOKEN_LEN then
    return nil
  end
  rest = string.gsub(rest, ' kept=%x+$', '')
  return {id, rest, left, token == zeros and 1 or 0, string.match(rest, ' granted=(%d+)$') or ''}
end

local function waiters(key)
  local names, found = names_of(key), {}
  local count = on_queue('HLEN', names .. 'w') or 0
  local tokens = count > 0 and on_queue('ZRANGE', names .. 'q', '0', ENOUGH - 1) or {}
  if #tokens == 0 then
    return count, found
  end
  spent = spent + #tokens
  for _, token in ipairs(tokens) do
    local entry = redis.call('HGET', names .. 'w', token)
    local till, mode, record = string.match(entry or '', '^(%d+) %d+ (%w+) (.*)$')
    if not till or tonumber(till) < now then
      -- This waiter is dead, but no script has dropped it yet.
      count = entry and count - 1 or count
    elseif #found < tonumber(ARGV[2]) then
      found[#found + 1] = {mode, record}
    end
  end
  return math.max(count, 0), found
end

local function look(key)
  local value, id = peek(key)
  if value then
    local left = redis.call('PTTL', key)
    local one = holder(value, id, left)
    if not one and ARGV[1] == '1' then
      one = {id, '', left, 0, ''}
    end
    return one and 'x', {one}, 1
  end
  if not id then
    return nil
  end
  local last = redis.pcall('ZRANGE', key, '-1', '-1')
  if last.err and not is_other_type(last) then
    return nil, nil, nil, last
  end
  local of = string.match(last[1] or '', '^mode permit (%d+)$')
  if last[1] ~= 'mode shared' and not of then
    return nil, nil, nil, ARGV[4] == '1' and open(key, now):look() or nil
  end
  local holders, live = {}, '(' .. string.format('%.0f', now + 1)
  local members = redis.call('ZRANGE', key, live, '(+inf', 'BYSCORE', 'LIMIT', '0', tonumber(ARGV[3]), 'WITHSCORES')
  spent = spent + #members / 2
  for at = 1, #members, 2 do
    -- The further permits of a grant are counted but not listed.
    if not string.find(members[at], ' %+%d+$') then
      holders[#holders + 1] = holder(members[at], redis.sha1hex(members[at]), tonumber(members[at + 1]) - now - 1)
    end
  end
  if #holders == 0 then
    return nil
  end
  -- Counts the members of the set, without the member for the mode and without the expired holders at the beginning.
  return of and 'p' .. of or 's', holders, redis.call('ZCARD', key) - redis.call('ZRANK', key, members[1]) - 1
end

local answer, looked = {}, 0
for _, key in ipairs(KEYS) do
  local mode, holders, holding, bad = look(key)
  if bad then
    return bad
  end
  looked, spent = looked + 1, spent + 1
  if mode then
    local waiting, first = waiters(key)
    answer[#answer + 1] = {key, mode, holders, holding, waiting, first}
  end
  if spent >= ENOUGH then
    break
  end
end
return {looked, answer}
