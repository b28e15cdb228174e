"""Commands about streams that many share."""
