
-- Tells which of some keys are locks, who holds them and who waits: for people who look at the server.
--
-- KEYS     candidates
-- ARGV     1  "1": a string that another library wrote is a lock too
--          2  of how many waiters of a key to tell
--          3  of how many holders of a key to tell
-- Returns  {how many of the keys were looked at, {lock ..}}, with a lock for each key that is one:
--          {key, mode, {{id, record, pttl, kept} ..}, how many hold, how many wait, {{mode, record} ..}}
--          mode: `x`, `s` or `p<of>`; id: SHA-1 of what is stored; record: owner record, "" for another library's;
--          pttl: ms, -1 without an expiry; kept: 1 when nobody renews it any more. No answer has an owner token.
-- Constants  TOKEN_LEN: see lib.lua
--
-- Atomic because the holders and the waiters of a key must be those of one moment. Changes nothing. It looks into what is
-- none of this library's as well, so it reads nothing whole that may be long, and stops when it has read enough.
local now = math.floor(server_time() / 1000)
local zeros = string.rep('0', TOKEN_LEN)
-- Holders and waiters that one script looks at, and of one queue: behind these the dead are counted too.
local ENOUGH, spent = 1000, 0

-- One who holds, by what is stored; nil when it is none of ours.
local function holder(value, id, left)
  local token, rest = string.match(value, '^(%x+) (.*)$')
  if not token or #token ~= TOKEN_LEN then
    return nil
  end
  return {id, (string.gsub(rest, ' kept=%x+$', '')), left, token == zeros and 1 or 0}
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
      -- Its place is over, and nobody has come by it yet.
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
      one = {id, '', left, 0}
    end
    return one and 'x', {one}, 1
  end
  local last = id and redis.pcall('ZRANGE', key, '-1', '-1') or {}
  local of = string.match(last[1] or '', '^mode permit (%d+)$')
  if last[1] ~= 'mode shared' and not of then
    return nil
  end
  local holders, live = {}, '(' .. string.format('%.0f', now + 1)
  local members = redis.call('ZRANGE', key, live, '(+inf', 'BYSCORE', 'LIMIT', '0', tonumber(ARGV[3]), 'WITHSCORES')
  spent = spent + #members / 2
  for at = 1, #members, 2 do
    holders[#holders + 1] = holder(members[at], redis.sha1hex(members[at]), tonumber(members[at + 1]) - now - 1)
  end
  if #holders == 0 then
    return nil
  end
  -- All but those before the first who live, and the mode.
  return of and 'p' .. of or 's', holders, redis.call('ZCARD', key) - redis.call('ZRANK', key, members[1]) - 1
end

local answer, looked = {}, 0
for _, key in ipairs(KEYS) do
  local mode, holders, holding = look(key)
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
