"""Where metrics go beside the run directory."""

from typing import Any

from transformers import TrainerCallback
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    get_available_reporting_integrations,
)

from entrometer.errors import InvalidValue, nearest_name


def trackers(report_to: str) -> list[str]:
    """Names of trackers, of which `report_to` has several parted by commas.

    Each is one that transformers knows and that is installed: it would tell only when
    Dr-GRPO begins, after imitation.
    """
    if report_to == "none":
        return []
    names = report_to.split(",")
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise InvalidValue(
                "expected report_to of none or of trackers parted by commas, got "
                f"{name!r}.{nearest_name(name, INTEGRATION_TO_CALLBACK)} There are: "
                f"{', '.join(INTEGRATION_TO_CALLBACK)}"
            )
        if name not in get_available_reporting_integrations():
            raise InvalidValue(
                f"expected the package of report_to={name!r}, got none; install it, or "
                "leave the tracker out"
            )
    return names


class OnlyNumbers(TrainerCallback):
    """Spares the callbacks after it what is undefined.

    TRL logs it as None, which the run keeps, and which is no number to a tracker.
    """

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Take it out of what is passed on."""
        logs = kwargs["logs"]
        for name in [n for n, value in logs.items() if value is None]:
            del logs[name]
