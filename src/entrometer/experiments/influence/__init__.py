"""The influence of every token of an update on entropy and on expected reward."""
