-- The text before every script on a Cluster, except renew.lua. On a Cluster, a script must name every key that it
-- accesses. PUBLISH would send a message to all nodes; SPUBLISH sends it only to the node of the slot.
--
-- KEYS     for each lock: the lock, then its helper keys `q`, `w`, `f` and `l`; last the prefix of the channels of the
--          slot, which also hashes to the slot and is never a key
-- Leaves   only the locks in KEYS, and turns PUBLISH into SPUBLISH to the channel of the slot
-- Constants  CHANNEL: see lib.lua
local KEYS, redis = (function(named, real)
  local locks, wake = {}, named[#named]
  for i = 1, #named - 1, 5 do
    locks[#locks + 1] = named[i]
  end
  local function pcall(command, channel, ...)
    if command == 'PUBLISH' then
      return real.pcall('SPUBLISH', wake .. string.sub(channel, #CHANNEL + 1), ...)
    end
    return real.pcall(command, channel, ...)
  end
  return locks, setmetatable({pcall = pcall}, {__index = real})
end)(KEYS, redis)

