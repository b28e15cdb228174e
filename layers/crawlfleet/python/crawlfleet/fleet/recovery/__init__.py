"""Recovery: dead workers, orphaned queues, lost indexes."""
