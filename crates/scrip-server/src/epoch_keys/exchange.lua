-- Wrapped keys of one epoch: leaves some, and gives all that are there then.
-- KEYS[1]: the epoch. ARGV: none, if_absent or restore; when it ends; then versions and keys in turn.
local ends, offer = ARGV[2], ARGV[1]
if offer == 'restore' or (offer == 'if_absent' and redis.call('EXISTS', KEYS[1]) == 0) then
  for at = 3, #ARGV, 2 do
    -- A restored key may be wrapped by a newer vault key than the one that is there.
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
  end
  -- One that is over already goes at once.
  redis.call('PEXPIREAT', KEYS[1], ends)
end
return redis.call('HGETALL', KEYS[1])
