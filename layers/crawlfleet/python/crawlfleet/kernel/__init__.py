"""The kernel holds what every room may use: errors, names, time, ids, addresses, drivers."""
