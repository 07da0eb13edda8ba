"""The change of entropy that one update makes, measured and predicted."""
