"""Quotas, in shares that workers hold (SPEC.md D9): what is used is capped, and nothing counted.

1. A limit is a quota in a document or of a job, and the account that it is of (``models``).
2. A worker holds a share of each account that its work is of, and reserves the worst case of a
   request from it before the download; what was not used is free again (``purse``, ``spending``).
3. Shares come from the account's ledger in Redis, in one exchange of a worker's every few seconds
   for all accounts of a tenant: it tells what was spent, and gets its next share (``redis``).
4. The ledger grants up to a ceiling that MongoDB has, and that is raised there first (``mongo``).
   What Redis loses was below the ceiling: all of that counts as used (``service``).
"""
