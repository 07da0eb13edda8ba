"""Losses of other frameworks and of users, compared with ours token by token."""
