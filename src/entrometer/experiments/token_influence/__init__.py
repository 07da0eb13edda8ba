"""Influence of tokens on entropy and reward, as `influence` and `compare` need it."""
