-- board_award: award a job to an applicant, if its version is the one read; its keys are those of
-- board_prelude.
-- ARGV[1] job
-- ARGV[2] version   that was read
-- ARGV[3] worker
-- ARGV[4] until     epoch ms by which the worker has to acknowledge it
-- reply   {job, its line, document, notes}, empty where it has changed
local job, worker, one = ARGV[1], ARGV[3], standing(ARGV[1])
if not one or one.state ~= 'applied' or one.version ~= tonumber(ARGV[2]) then return {} end
if redis.call('HEXISTS', BIDS, worker) == 0 then return {} end
even_when_full(OFFERS)
take_from_queue(job, one)
local from = move(tenant_of(job), math.floor(SCALE / one.weight))
if from > pass_of('*') then redis.call('HSET', PASSES, '*', whole_text(from)) end
free_applicants(job, worker)
redis.call('ZREM', WINDOWS, job)
redis.call('ZADD', AWARDS, ARGV[4], job)
one.state, one.worker, one.until_ms = 'awarded', worker, tonumber(ARGV[4])
one.number = next_serial()
note_standing(job, one)
return standings({ job })
