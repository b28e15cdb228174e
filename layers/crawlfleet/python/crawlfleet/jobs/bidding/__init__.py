"""Bidding: workers apply for the jobs that suit them."""
