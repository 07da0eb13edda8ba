"""What one policy-gradient step does to a model's entropy and expected reward."""

__version__ = "0.1.0.dev0"
