-- item_time: the clock by which items of a queue key are older or newer.
-- KEYS[1] item_queue  LIST  ids; names the node, on a cluster
-- reply   epoch us
return server_us()
