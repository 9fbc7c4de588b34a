-- Grants a lock for which a plain SET is not enough: the key is taken, or the claim asks for order of arrival, a
-- fencing token or another mode. Queues the claim on request.
--
-- KEYS     1  the lock
-- ARGV     1  owner token, 48 characters
--          2  the value to store: owner token, space, owner record
--          3  lease in ms
--          4  deadline: server time in us; a request that arrives later was abandoned by its client and must do nothing
--          5  how long to remember the last fencing token, in ms; "0": the claim asks for no fencing token
--          6  mode: `x`, `s` or `p<of>`
--          7  the claim is queued only while fewer than this many wait; "": it is not queued
--          8  "1": it is not queued either while an owner of its own process that can hand off to it holds the key
-- Returns  {1, now, waiters[, fence]}                               granted
--          {0, now, pttl, holder, others, place or -1, own, kept}   held
--          {-1, now}                                                too late
--          {-2, now, mode}                                          the key is in use in an incompatible mode
--          with now = server time in us; others: the number of other waiters; place: the claim's position in the queue;
--          own: 1 when the holder can hand off to this claim; kept: 1 when its queue entry was made or kept now.
-- Constants  CHANNEL, PROCESS_LEN, TOKEN_LEN, HANDOFF_LEN, VALUE_END, WAITER_LEASE, QUEUE_TTL, QUEUE_TTL_LEAST: see
--            lib.lua
--
-- Atomic because nobody may take the key between the read and the write, because an older queue entry is served first,
-- and because the fencing token must belong to this grant. A repeated request of the holder is answered granted and
-- never shortens the lease. All reads precede the first write, so that a key of another type fails the whole script.

-- Before Redis 7, a script that reads the time must first choose the replication of its effects, not of its text.
if redis.replicate_commands then redis.replicate_commands() end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then
  return {-1, now}
end

-- Same as `names_of` in lib.lua.
local names = '{' .. KEYS[1] .. '}:'
if string.find(KEYS[1], '}', 1, true) then
  names = (string.match(KEYS[1], '^[^{]*({[^}]+})') or '') .. names
end

local fenced, last, of = ARGV[5] ~= '0', 0, nil
if fenced then
  local text = redis.call('GET', names .. 'f')
  if text then
    last, of = string.match(text, '^(%d+) (%S+)$')
    if not last then
      return redis.error_reply('WRONGTYPE ' .. names .. 'f is no fencing token')
    end
    last = tonumber(last)
  end
end

-- Queues a claim behind an exclusive holder. Nobody is served before that holder ends, so the rest of the script has
-- nothing to add. Repeats `join`, `stay` and `held` of lib.lua, because defining the library costs as much again.
-- Runs before the free path for a caller that enqueues: it already knows that the key is held.
local function line_up()
  local held = redis.pcall('GETRANGE', KEYS[1], '0', VALUE_END)
  -- A missing key reads like an empty string. The rest of the script tells them apart.
  if type(held) ~= 'string' or held == '' or held:find(ARGV[1], 1, true) == 1 then
    return nil
  end
  local call, token = redis.call, ARGV[1]
  local queue, waiting = names .. 'q', names .. 'w'
  local own = string.sub(held, 1, HANDOFF_LEN) == string.sub(token, 1, HANDOFF_LEN)
  local others, place, kept = call('HLEN', waiting), nil, 0
  -- The answer reports the number of waiters, or the number decides about the entry: it must not count the dead. If the
  -- head is dead, the rest of the script drops the dead first.
  if others > 0 and (ARGV[7] == '' or others >= tonumber(ARGV[7])) then
    local head = call('ZRANGE', queue, '0', '0')[1]
    local till = head and string.match(call('HGET', waiting, head) or '', '^%d+')
    if not till or tonumber(till) < math.floor(now / 1000) then
      return nil
    end
  end
  if ARGV[7] ~= '' and not (own and ARGV[8] == '1') and others < tonumber(ARGV[7]) then
    local last = call('ZREVRANGE', queue, '0', '0', 'WITHSCORES')[2]
    -- Above every ticket in the queue, also when the server's clock was set back.
    local ticket = last and math.max(tonumber(last) + 1, now) or now
    if call('ZADD', queue, 'NX', string.format('%.0f', ticket), token) == 1 then
      place = others
    end
  end
  if not place then
    place = call('ZRANK', queue, token)
    if place then
      others = math.max(others - 1, 0)
    end
  end
  if place and ARGV[7] ~= '' then
    kept = 1
    local till = string.format('%.0f ', math.floor(now / 1000) + 1 + math.min(tonumber(ARGV[3]), WAITER_LEASE))
    call('HSET', waiting, token, till .. ARGV[3] .. ' ' .. ARGV[6] .. ' ' .. string.sub(ARGV[2], TOKEN_LEN + 2))
    -- Both keys expire together, and rarely soon: reading one ttl costs less than two writes.
    if others == 0 or call('PTTL', queue) < QUEUE_TTL_LEAST then
      call('PEXPIRE', queue, QUEUE_TTL)
      call('PEXPIRE', waiting, QUEUE_TTL)
    end
    -- The holder's process keeps handing off locally until it knows of a waiter of another process.
    if others == 0 and place == 0 and #held >= TOKEN_LEN
      and string.find(string.sub(held, 1, TOKEN_LEN), '^[0-9a-f]+$') then
      redis.pcall('PUBLISH', CHANNEL .. string.sub(held, 1, PROCESS_LEN), 'contended ' .. KEYS[1])
    end
  end
  return {0, now, call('PTTL', KEYS[1]), held, others, place or -1, own and 1 or 0, kept}
end

local answer = #ARGV[6] == 1 and ARGV[7] ~= '' and line_up()
if answer then
  return answer
end

-- A free lock without waiters. With a queue, the rest of the script serves the oldest entry before this claim.
if ARGV[6] == 'x' and redis.call('EXISTS', names .. 'q') == 0
  and redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
  if not fenced then
    return {1, now, 0}
  end
  -- If the server's clock was set back, the last token + 1 keeps the tokens growing. `%.0f`, because Lua's own
  -- conversion keeps 14 digits and these numbers have 16.
  local fence = math.max(now, last + 1)
  redis.call('SET', names .. 'f', string.format('%.0f', fence) .. ' ' .. ARGV[1], 'PX', ARGV[5])
  return {1, now, 0, fence}
end

answer = #ARGV[6] == 1 and ARGV[7] == '' and line_up()
if answer then
  return answer
end

