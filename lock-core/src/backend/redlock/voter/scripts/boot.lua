-- Registers one run of a voter and its data: writes the marker that the gate reads, if it is missing or wrong.
--
-- KEYS     1  the marker, a hash without an expiry: `run` (run id of the server), `since` (server time in us at which
--             its quarantine began), `max` (the longest lease, in ms), `evicted` (number of evicted keys so far),
--             `seal` (the first three in one text, for one comparison)
-- ARGV     1  the longest lease of this client, in ms
--          2  "1": a new cluster without locks, which needs no quarantine
-- Returns  {run, max, why, left, till, seal}
--                                  why: 0 the marker was right, 1 no marker, 2 marker of another run, 3 keys were
--                                  evicted since, 4 a new cluster, 5 the clock was set back to before `since`; left: rest
--                                  of the quarantine in us, 0 for none; till: end of the quarantine, server time in us
-- Constants  QUARANTINE_FACTOR, QUARANTINE_MARGIN: see gate.lua
--
-- Atomic because the gate must never see an incomplete marker. This script runs in one transaction with the loading of
-- the gated scripts. So a cached gated script proves that the server was registered in the same run.
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
  -- If the count is smaller but not 0, `CONFIG RESETSTAT` started a new count, and keys have been evicted since then.
  why = 3
elseif since > now then
  -- The clock was set back to a time before the quarantine began. Without this case, the quarantine would be longer by
  -- the step of the clock.
  why = 5
end
-- A `max` in the marker is kept, because the forgotten leases may be that long.
if why > 0 and why ~= 4 then
  since, max = now, max or tonumber(ARGV[1])
end
-- `%.0f` is needed, because Lua's own conversion keeps 14 digits and a time has 16 digits.
local began = string.format('%.0f', since)
local seal = run .. ' ' .. began .. ' ' .. max
if why > 0 or evicted ~= counted or marker[5] ~= seal then
  redis.call('HSET', KEYS[1], 'run', run, 'since', began, 'max', max, 'evicted', evicted, 'seal', seal)
end
local till = since + max * QUARANTINE_FACTOR + QUARANTINE_MARGIN
return {run, max, why, math.max(till - now, 0), till, seal}
