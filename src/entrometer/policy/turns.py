"""A tool that replies in the middle of a response, and the response as it grows."""

from collections.abc import Container
from typing import Any, Protocol, runtime_checkable

DECODED: dict[str, Any] = {
    "skip_special_tokens": True,
    "clean_up_tokenization_spaces": False,
}
"""How a response becomes text."""


@runtime_checkable
class Tool(Protocol):
    """What a policy calls: another program's text continues the response.

    The same text must get the same reply on every machine, or a repeated draw would be
    another response.
    """

    @property
    def call_end(self) -> str:
        """Text that completes a call; "" if calls end with an EOS token alone."""
        ...

    def reply(self, prompt_id: int, text: str) -> str | None:
        """Return what follows the response so far; None for nothing."""
        ...


class GrowingResponse:
    """Tokens of a response so far, and the rest of a reply that is being read."""

    def __init__(self, prompt_id: int) -> None:
        self.prompt_id = prompt_id
        self.tokens: list[int] = []
        self.written: list[bool] = []
        """Whether the policy wrote each token."""
        self.logprobs: list[float] = []
        """Log-prob of each token that the policy wrote."""
        self._reply: list[int] = []

    def add(self, drawn: int, logprob: float) -> None:
        """Append the next token: of a reply if one is left, otherwise the drawn one."""
        # The policy reads a reply token by token, with the rest of its batch: a row
        # that fed several at once would pad all others.
        self.written.append(not self._reply)
        if self._reply:
            self.tokens.append(self._reply.pop(0))
        else:
            self.tokens.append(drawn)
            self.logprobs.append(logprob)

    def goes_on(
        self, eos: Container[int], tool: Tool | None, tokenizer: Any, max_tokens: int
    ) -> bool:
        """Return whether the response goes on; if its tool replies, take the reply.

        A tool is asked after a token that completes a call, and after EOS: its reply
        then begins another turn. A reply that leaves no room for a further token ends
        the response, as in TRL.
        """
        if self._reply or not self.written[-1]:
            return True
        ended = self.tokens[-1] in eos
        if tool is None or not (ended or self._completes(tool.call_end, tokenizer)):
            return not ended
        text = tool.reply(self.prompt_id, tokenizer.decode(self.tokens, **DECODED))
        if text is None:
            return not ended
        self._reply = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        return len(self.tokens) + len(self._reply) < max_tokens

    def _completes(self, call_end: str, tokenizer: Any) -> bool:
        if not call_end:
            return False
        # A token has at least one byte, so that these hold all of the text. It may be
        # in the middle of the last token.
        last = self.tokens[-len(call_end.encode()) :]
        with_it, without = (tokenizer.decode(t, **DECODED) for t in (last, last[:-1]))
        return call_end in with_it and call_end not in without
