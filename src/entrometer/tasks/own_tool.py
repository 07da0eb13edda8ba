"""A user's own prompts, with a tool that replies in the middle of responses."""

from collections.abc import Callable
from dataclasses import dataclass

from entrometer.errors import InvalidValue
from entrometer.tasks.own import OWN, Own
from entrometer.tasks.registry import Problem, register

Reply = Callable[[str], str | None]
"""The response so far in; what follows it out, or None for nothing."""


@dataclass(frozen=True)
class OwnWithTool(Own):
    """`Own` with a tool.

    It is asked after EOS, where a turn of the policy ends; or, if the function has an
    attribute `call_end`, after that text as well.
    """

    tool: str = ""  #: The tool, as `module:function`.

    @property
    def call_end(self) -> str:
        """Text that completes a call; "" if calls end with an EOS token alone."""
        return str(getattr(reply_function(self.tool), "call_end", ""))

    def reply(self, problem: Problem, text: str) -> str | None:
        """Return what the user's function adds to the response so far."""
        try:
            found = reply_function(self.tool)(text)
        # A user's function may raise anything.
        except Exception as error:
            raise InvalidValue(
                f"expected a reply of {self.tool}, got {type(error).__name__}: "
                f"{error}; it is called with the response so far as text, which may "
                "be anything: return an error's message as a text"
            ) from error
        if found is not None and not isinstance(found, str):
            raise InvalidValue(
                f"expected a text or None from {self.tool}, got "
                f"{type(found).__name__}; return what the policy reads next, with the "
                "tags of its chat template"
            )
        return found


def reply_function(text: str) -> Reply:
    """Return the function that `module:function` names; the module may be a file here.

    The user names it on the command line, so its code is trusted.
    """
    # Imported here, because tasks and their verifier work without NumPy and pyarrow.
    from entrometer.runs.user_function import user_function

    example = "--tool agent:reply for `def reply(...)` in agent.py"
    return user_function(text, what="tool", example=example)


@register(OWN)
def own(
    updates: str = "",
    exclude: str = "",
    prompts_file: str = "",
    reward: str = "",
    tool: str = "",
) -> Own:
    """Return the task of a user's prompts, with a tool if one is named."""
    settings = (updates, exclude, prompts_file, reward)
    return OwnWithTool(*settings, tool=tool) if tool else Own(*settings)
