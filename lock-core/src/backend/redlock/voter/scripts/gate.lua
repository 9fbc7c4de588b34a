-- The gate before an acquire script of a voter. A server that may have forgotten a lease grants nothing until that
-- lease ends. Only the bootstrap may load this text, so it contains an id that no other text has:
-- 4f0c1b7e9a6d42c58e13d7b2605fa9c4.
--
-- KEYS     the keys of the script after the gate
-- ARGV     3             lease in ms, as in the script after the gate
--          last but one  end of the quarantine, server time in us, from the last bootstrap over this connection
--          last          seal of the marker, from the same bootstrap: it begins with the run id of the server
-- Returns  {-3, now}            a bootstrap is needed: the marker is missing, belongs to another run, or has a later
--                               time, because the clock was set back
--          {-4, now, max ttl}   the lease is longer than the marker allows: max ttl in ms
--          {-5, now, left}      quarantine, which lasts for another left us
--          or the answer of the script after the gate. `now` is the server time in us.
-- Constants  VOTER_MARKER, RUN_ID_LEN, QUARANTINE_FACTOR (us for each ms of a lease), QUARANTINE_MARGIN (us): see
--            scripts.rs
--
-- Atomic because the marker must belong to the same run and data as the key that the next script grants.
-- Before Redis 7, a script that reads the time must declare that its effects are replicated instead of its text.
if redis.replicate_commands then redis.replicate_commands() end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
do
  local marker = redis.call('HMGET', VOTER_MARKER, 'run', 'since', 'max')
  if marker[1] ~= string.sub(ARGV[#ARGV], 1, RUN_ID_LEN) or tonumber(marker[2]) > now then
    return {-3, now}
  end
  local max = tonumber(marker[3])
  if tonumber(ARGV[3]) > max then
    return {-4, now, max}
  end
  -- The quarantine is the longest lease that may have been forgotten, plus 2 % for clocks with different speeds, and 10
  -- ms for rounding.
  local till = marker[2] + max * QUARANTINE_FACTOR + QUARANTINE_MARGIN
  if now < till then
    return {-5, now, till - now}
  end
end

