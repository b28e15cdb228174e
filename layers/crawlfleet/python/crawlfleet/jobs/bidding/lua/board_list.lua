-- board_list: list jobs by name; its keys are those of board_prelude.
-- ARGV[1] prefix   'tenant/' or 'tenant/biz/'
-- ARGV[2] after    a job, or '' to begin at the first
-- ARGV[3] count
-- reply   {job, its line, document, notes, job...}
return standings(members(INDEX, ARGV[1], ARGV[2] ~= '' and ARGV[2] or nil, ARGV[3]))
