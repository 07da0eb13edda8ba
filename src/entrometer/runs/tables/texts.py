"""Types of columns that hold what a prompt says or a model wrote.

They mark what an exported run leaves out: `entrometer.report.export`.
"""

from typing import Annotated

Text = Annotated[str, "text of a prompt or a response"]
"""Untrusted: may hold control characters and markup."""

TokenId = Annotated[int, "id of a token"]
"""As good as the token's text to anyone who has the tokenizer."""
