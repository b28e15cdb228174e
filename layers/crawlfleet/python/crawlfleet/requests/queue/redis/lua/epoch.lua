-- epoch: which server this is, and the nonce that was written here when the queue was rebuilt.
-- KEYS[1] filled  STRING  'reached:nonce', ':nonce' when the queue is whole
-- reply   {run of the server process, replication history, filled or nil}
--
-- The run changes with a restart and on another server; the history changes also when a server was
-- a replica for a while and is promoted again, and when it gets its first replica: the queue is rebuilt
-- once more then, which does no harm.
return {
  fact_of(account('server'), 'run_id') or '',
  fact_of(account('replication'), 'master_replid') or '',
  redis.call('GET', KEYS[1]),
}
