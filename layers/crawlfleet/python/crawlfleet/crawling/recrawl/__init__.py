"""Recrawl: visits of pages and when they are due."""
