-- Tells which of some keys are locks, who holds them and who waits: for people who look at the server.
--
-- KEYS     candidates
-- ARGV     1  "1": a string that another library wrote is a lock too
--          2  of how many waiters to tell
-- Returns  for each key that is a lock
--          {key, mode, {{id, record, pttl, kept} ..}, how many wait, {{mode, record} ..}}
--          mode: `x`, `s` or `p<of>`; id: SHA-1 of what is stored; record: owner record, "" for another library's;
--          pttl: ms, -1 without an expiry; kept: 1 when nobody renews it any more. No answer has an owner token.
--
-- Atomic because the holders and the waiters of a key must be those of one moment. Changes nothing.
local now = math.floor(server_time() / 1000)
local zeros = string.rep('0', 48)

-- One who holds, by what is stored; nil when it is none of ours.
local function holder(value, left)
  local token, rest = string.match(value, '^(%x+) (.*)$')
  if not token or #token ~= 48 then
    return nil
  end
  return {redis.sha1hex(value), (string.gsub(rest, ' kept=%x+$', '')), left, token == zeros and 1 or 0}
end

local function waiters(key)
  local found, names = {}, names_of(key)
  for _, token in ipairs(redis.call('ZRANGE', names .. 'q', 0, tonumber(ARGV[2]) - 1)) do
    local entry = redis.call('HGET', names .. 'w', token)
    local mode, record = string.match(entry or '', '^%d+ %d+ (%w+) (.*)$')
    if mode then
      found[#found + 1] = {mode, record}
    end
  end
  return redis.call('HLEN', names .. 'w'), found
end

local function look(key)
  local held = redis.pcall('GET', key)
  if type(held) == 'string' then
    local left = redis.call('PTTL', key)
    local one = holder(held, left)
    if not one and ARGV[1] == '1' then
      one = {redis.sha1hex(held), '', left, 0}
    end
    return one and 'x', {one}
  end
  if not held or not string.find(held.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  local members = redis.pcall('ZRANGE', key, 0, -1, 'WITHSCORES')
  local marker = not members.err and members[#members - 1]
  if not marker then
    return nil
  end
  local of = string.match(marker, '^mode permit (%d+)$')
  if marker ~= 'mode shared' and not of then
    return nil
  end
  local holders = {}
  for at = 1, #members - 2, 2 do
    local left = tonumber(members[at + 1]) - now - 1
    local one = left > 0 and holder(members[at], left)
    if one then
      holders[#holders + 1] = one
    end
  end
  return #holders > 0 and (of and 'p' .. of or 's'), holders
end

local answer = {}
for _, key in ipairs(KEYS) do
  local mode, holders = look(key)
  if mode then
    local waiting, first = waiters(key)
    answer[#answer + 1] = {key, mode, holders, waiting, first}
  end
end
return answer
