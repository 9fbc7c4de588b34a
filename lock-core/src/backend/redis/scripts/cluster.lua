-- The preamble of every script on a Cluster except renew.lua. A Cluster requires that a script names every key that it
-- touches, and it sends a message to all nodes unless the message is sharded.
--
-- KEYS     for each lock: the lock, then its helper keys `q`, `w`, `f` and `l`; last the prefix of the channels of the
--          slot, which hashes to the slot too and is never a key
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

