-- Grants a lock if a plain SET is not enough: the key is held, or the claim needs arrival order, a fencing token or
-- another mode. Queues the claim on request.
--
-- KEYS     1  the lock
-- ARGV     1  owner token, 48 characters
--          2  the value to store: owner token, space, owner record
--          3  lease in ms
--          4  deadline: server time in us; a request that arrives later was abandoned by its client and must do nothing
--          5  how long to remember the last fencing token, in ms; "0": the claim needs no fencing token
--          6  mode: `x`, `s`, `p<of>` or `p<of>x<n>`
--          7  the claim is queued only if fewer claims than this wait; "": the claim is not queued
--          8  "1": the claim may overtake a queue whose holder has expired. The claim is not queued while an owner of
--             its own process holds the key and can hand off to it
-- Returns  {1, now, waiters[, fence]}                               granted; waiters: nil if they were not counted
--          now, a number                                            granted, and no claim waits
--          now, a text                                              granted with this time as the fencing token, and
--                                                                   waiters were not counted
--          {0, now, pttl, holder, others, place or -1, own, kept}   held
--          {-1, now}                                                the deadline has passed
--          {-2, now, mode}                                          the key is in use in an incompatible mode
--          with now = server time in us; others: the number of other waiters; place: the claim's position in the queue;
--          own: 1 when the holder can hand off to this claim; kept: 1 when its queue entry was made or kept now
-- Constants  VALUE_END: see lib.lua
--
-- Atomic because no other claim may acquire the key between the read and the write, because an older queue entry is
-- served first, and because the fencing token must belong to this grant. The answer to a repeated request of the holder
-- is *granted*, and the request never shortens the lease. If a helper key has another type, the script fails and grants
-- nothing: it reads the helper keys before the first write, and deletes a grant whose fencing token cannot be stored.

-- Before Redis 7, a script may write after TIME only if it replicates its effects instead of its text. Redis 7 defines
-- REDIS_VERSION_NUM.
if not redis.REDIS_VERSION_NUM and redis.replicate_commands then redis.replicate_commands() end

-- The time stays a text of 16 digits, because the hot path compares, stores and returns text. A conversion to a number
-- would cost half as much as a call.
local call = redis.call
local time = call('TIME')
local text = time[2]
while #text < 6 do
  text = '0' .. text
end
text = time[1] .. text
if #text > #ARGV[4] or #text == #ARGV[4] and text > ARGV[4] then
  return {-1, text - 0}
end

-- These variables are for the next parts of the script.
local names, held, waiters = '{' .. KEYS[1] .. '}:', nil, false
-- The same as `names_of` in lib.lua.
if string.find(KEYS[1], '}', 1, true) then
  names = (string.match(KEYS[1], '^[^{]*({[^}]+})') or '') .. names
end
-- Reads the holder if the key is probably held: the claim requests a queue entry, or its plain SET has failed.
local enqueues, barges = ARGV[7] ~= '', ARGV[8] == '1'
if enqueues or barges and ARGV[5] == '0' then
  held = redis.pcall('GETRANGE', KEYS[1], '0', VALUE_END)
end
local may_take = ARGV[6] == 'x' and (held == nil or held == '')
if may_take and (enqueues or not barges) then
  -- If there is a queue, the last part of the script serves the oldest entry before this claim.
  may_take, waiters = call('EXISTS', names .. 'q') == 0, 0
end
