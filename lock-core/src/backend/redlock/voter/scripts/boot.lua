-- Registers the life and the data of a voter: writes the marker that the gate reads, unless it is there and right.
--
-- KEYS     1  the marker, a hash without an expiry: `run` (run id of the server), `since` (server time in us at which
--             its quarantine began), `max` (the longest lease, in ms), `evicted` (keys that were evicted by then), `seal`
--             (the first three in one text, which is compared at once)
-- ARGV     1  the longest lease of this client, in ms
--          2  "1": a new cluster, without locks; there is nothing to wait for
-- Returns  {run, max, why, left, till, seal}
--                                  why: 0 the marker was right, 1 there was none, 2 it was of another run, 3 keys were
--                                  evicted since, 4 a new cluster; left: of the quarantine, in us, 0 for none;
--                                  till: its end, server time in us
-- Constants  QUARANTINE_FACTOR, QUARANTINE_MARGIN: see gate.lua
--
-- Atomic because the gate must never see a part of it. Runs in one transaction with the load of the gated scripts, so
-- that a script of them which runs has had a bootstrap in the same life.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local evicted = tonumber(string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)') or 0)
local marker = redis.call('HMGET', KEYS[1], 'run', 'since', 'max', 'evicted', 'seal')
local since, max, counted = tonumber(marker[2]), tonumber(marker[3]), tonumber(marker[4])

local why = 0
if ARGV[2] == '1' then
  why, since, max = 4, 0, tonumber(ARGV[1])
elseif not (marker[1] and since and max and counted) then
  why = 1
elseif marker[1] ~= run then
  why = 2
elseif evicted > counted or (evicted < counted and evicted > 0) then
  -- Fewer than before: `CONFIG RESETSTAT` began a new count, and keys were evicted since.
  why = 3
end
if why > 0 and why < 4 then
  since, max = now, max or tonumber(ARGV[1])
end
-- `%.0f` because Lua's own conversion keeps 14 digits and a time has 16.
local began = string.format('%.0f', since)
local seal = run .. ' ' .. began .. ' ' .. max
if why > 0 or evicted ~= counted or marker[5] ~= seal then
  redis.call('HSET', KEYS[1], 'run', run, 'since', began, 'max', max, 'evicted', evicted, 'seal', seal)
end
local till = since + max * QUARANTINE_FACTOR + QUARANTINE_MARGIN
return {run, max, why, math.max(till - now, 0), till, seal}
