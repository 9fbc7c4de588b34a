
-- The third part of acquire.lua, for an exclusive or shared claim on a key with an exclusive holder. While that holder
-- has the key, no waiter can be served, so the last part of the script is not needed. This part repeats `join`, `stay`,
-- `contend` and `held` of lib.lua, because defining the library would double the cost.
--
-- Constants  CHANNEL, PROCESS_LEN, TOKEN_LEN, HANDOFF_LEN, VALUE_END, MARK, MARK_AT, WAITER_LEASE, QUEUE_TTL,
--            SPAN_LEN: see lib.lua
local now = text - 0
if #ARGV[6] == 1 then
  held = held or redis.pcall('GETRANGE', KEYS[1], '0', VALUE_END)
  -- GETRANGE returns '' for a missing key and for an empty string. The last part of the script distinguishes the two.
  if type(held) == 'string' and held ~= '' and string.find(held, ARGV[1], 1, true) ~= 1 then
    local token = ARGV[1]
    local queue, waiting = names .. 'q', names .. 'w'
    local own = string.sub(held, 1, HANDOFF_LEN) == string.sub(token, 1, HANDOFF_LEN)
    local others, place, kept, dead, fresh = call('HLEN', waiting), nil, 0, false, false
    -- The count of waiters must not include dead waiters if the queue seems full, or if the claim is not queued. If the
    -- first waiter is dead, the last part of the script runs instead: it drops the dead waiters first.
    if others > 0 and (not enqueues or others >= tonumber(ARGV[7])) then
      local head = call('ZRANGE', queue, '0', '0')[1]
      local till = head and string.match(call('HGET', waiting, head) or '', '^%d+')
      dead = not till or tonumber(till) < math.floor(now / 1000)
    end
    if not dead then
      if enqueues and not (own and barges) and others < tonumber(ARGV[7]) then
        local last = call('ZREVRANGE', queue, '0', '0', 'WITHSCORES')
        local ticket = text
        -- Texts of equal length compare like their numbers.
        if last[2] and (#last[2] ~= #text or last[2] >= text) then
          -- The ticket must be larger than every ticket in the queue, even if the server's clock was set back.
          ticket = string.format('%.0f', math.max(last[2] + 1, now))
        end
        if call('ZADD', queue, 'NX', ticket, token) == 1 then
          place = others
        end
        fresh = last[2] and string.sub(last[2], 1, SPAN_LEN) == string.sub(text, 1, SPAN_LEN)
      end
      if not place then
        place = call('ZRANK', queue, token)
        if place then
          others = math.max(others - 1, 0)
        end
      end
      if place and enqueues then
        kept = 1
        -- Lua's own conversion to text keeps 14 digits, and the number has 13.
        local till = math.floor(now / 1000) + 1 + math.min(tonumber(ARGV[3]), WAITER_LEASE)
        local record = string.sub(ARGV[2], TOKEN_LEN + 2)
        local at = string.find(record, ' granted=', 1, true)
        record = at and string.sub(record, 1, at - 1) or record
        call('HSET', waiting, token, till .. ' ' .. ARGV[3] .. ' ' .. ARGV[6] .. ' ' .. record)
        -- Both keys expire together. Every heartbeat extends their expiry. If every waiter is served before its first
        -- heartbeat, no heartbeat is sent. So the first claim of every 10 s also extends the expiry here.
        if others == 0 or not fresh then
          call('PEXPIRE', queue, QUEUE_TTL)
          call('PEXPIRE', waiting, QUEUE_TTL)
        end
        local mark = string.sub(held, TOKEN_LEN + 1, TOKEN_LEN + 1)
        if mark == ' ' or mark == MARK and others == 0 then
          local _, digits = string.find(held, '^[0-9a-f]+')
          if digits == TOKEN_LEN then
            if mark == ' ' then
              call('SETRANGE', KEYS[1], MARK_AT, MARK)
            end
            -- Only a process with local hand-offs (digit 0 here) reacts to this message.
            if string.sub(held, HANDOFF_LEN, HANDOFF_LEN) == '0' then
              redis.pcall('PUBLISH', CHANNEL .. string.sub(held, 1, PROCESS_LEN), 'contended ' .. KEYS[1])
            end
          end
        end
      end
      return {0, now, call('PTTL', KEYS[1]), held, others, place or -1, own and 1 or 0, kept}
    end
  end
end
