-- item_time: the time by which the items of a lane are told to be older or newer.
-- KEYS[1] item_queue  LIST  ids; names the node, on a cluster
-- reply   epoch us
return server_us()
