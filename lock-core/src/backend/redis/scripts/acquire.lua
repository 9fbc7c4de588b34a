-- Grants a lock where the plain SET found the key taken, and whatever more than that SET is asked for: order of
-- arrival, a fencing token, another mode. Takes a place in the queue, if that is wanted.
--
-- KEYS     1  the lock
-- ARGV     1  owner token, 48 characters
--          2  the value to store: owner token, space, owner record
--          3  lease in ms
--          4  not after: server time in us; a request that comes later was given up by its client and must do nothing
--          5  how long to remember the last fencing token, in ms; "0": no fencing token is wanted
--          6  mode: `x`, `s` or `p<of>`
--          7  how many may wait before this claim takes no place; "": takes none at all
--          8  "1": takes none either while a holder of its own process has the key
-- Returns  {1, now, waiters[, fence]}                               granted
--          {0, now, pttl, holder, others, place or -1, own, kept}   held; kept: 1 when it has its place from now
--          {-1, now}                                                too late
--          {-2, now, mode}                                          the key is in use in a mode with nothing in common
--          with now = server time in us.
-- Constants  CHANNEL, PROCESS_LEN, TOKEN_LEN, HANDOFF_LEN, VALUE_END, WAITER_LEASE, QUEUE_TTL, QUEUE_TTL_LEAST: see
--            lib.lua
--
-- Atomic because nobody may take the key between the look and the write, because an older place goes first, and because
-- the fencing token must belong to this grant. Asked again by its owner it answers granted, and never shortens the
-- lease. The reads come before the first write, so that a key of another type fails the script as a whole.

-- Before Redis 7, a script that asks for the time must say that its effects are replicated, not its text.
if redis.replicate_commands then redis.replicate_commands() end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then
  return {-1, now}
end

-- As `names_of` in the library.
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

-- A lock that another has exclusively: nobody is served before its end, so all there is to do is to line up. The same as
-- `join`, `stay` and `held` in the library, which costs as much again to define. In front of the free lock, because who
-- wants a place was told that the key is taken.
local function line_up()
  local held = redis.pcall('GETRANGE', KEYS[1], '0', VALUE_END)
  -- A missing key reads like an empty text; the rest of the script tells them apart.
  if type(held) ~= 'string' or held == '' or held:find(ARGV[1], 1, true) == 1 then
    return nil
  end
  local call, token = redis.call, ARGV[1]
  local queue, waiting = names .. 'q', names .. 'w'
  local own = string.sub(held, 1, HANDOFF_LEN) == string.sub(token, 1, HANDOFF_LEN)
  local others, place, kept = call('HLEN', waiting), nil, 0
  -- How many wait is told, or decides: not with the dead, who are dropped further below.
  if others > 0 and (ARGV[7] == '' or others >= tonumber(ARGV[7])) then
    local head = call('ZRANGE', queue, '0', '0')[1]
    local till = head and string.match(call('HGET', waiting, head) or '', '^%d+')
    if not till or tonumber(till) < math.floor(now / 1000) then
      return nil
    end
  end
  if ARGV[7] ~= '' and not (own and ARGV[8] == '1') and others < tonumber(ARGV[7]) then
    local last = call('ZREVRANGE', queue, '0', '0', 'WITHSCORES')[2]
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
    -- They live equally long, and are far from their end: a look at one of them is less work than two writes.
    if others == 0 or call('PTTL', queue) < QUEUE_TTL_LEAST then
      call('PEXPIRE', queue, QUEUE_TTL)
      call('PEXPIRE', waiting, QUEUE_TTL)
    end
    -- The holder goes on taking turns in its process as long as it knows of nobody else.
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

-- The free lock that nobody waits for.
if ARGV[6] == 'x' and redis.call('EXISTS', names .. 'q') == 0
  and redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
  if not fenced then
    return {1, now, 0}
  end
  -- Where the server's clock was set back, the order of the tokens comes from the last one. `%.0f` because Lua's own
  -- conversion keeps 14 digits and these numbers have 16.
  local fence = math.max(now, last + 1)
  redis.call('SET', names .. 'f', string.format('%.0f', fence) .. ' ' .. ARGV[1], 'PX', ARGV[5])
  return {1, now, 0, fence}
end

answer = #ARGV[6] == 1 and ARGV[7] == '' and line_up()
if answer then
  return answer
end

