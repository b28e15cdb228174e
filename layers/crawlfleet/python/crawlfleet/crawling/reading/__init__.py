"""Pages are read in a process of their own, which has nothing that a page could want (H5)."""
