"""Responses as rows of tokens, each in the colour of what it does."""
