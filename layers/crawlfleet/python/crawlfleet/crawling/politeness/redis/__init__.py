"""What the fleet shares of hosts and of robots.txt, in Redis."""
