"""Pictures of a report in light, dark and grey: python -m benchmarks.report.shots."""

import argparse
import base64
import tempfile
from pathlib import Path

from benchmarks.report.chromium import Browser, address, screen

LOOKS = {
    "light": ("light", "none"),
    "dark": ("dark", "none"),
    "grey": ("light", "achromatopsia"),
    "dark-grey": ("dark", "achromatopsia"),
}


def shoot(
    page: Path | str, out: Path, look: str, *, before: str = "", width: int = 1100
) -> Path:
    """Write what a screen of the page shows, after `before` was carried out on it."""
    scheme, sight = LOOKS[look]
    with tempfile.TemporaryDirectory() as profile, Browser(profile, 60) as browser:
        browser.open_tab()
        browser.ask("Emulation.setDeviceMetricsOverride", screen(width))
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.ask("Emulation.setEmulatedMedia", {"features": [feature]})
        browser.ask("Emulation.setEmulatedVisionDeficiency", {"type": sight})
        browser.ask("Page.enable")
        browser.ask("Page.navigate", {"url": address(page)})
        browser.wait_for("Page.loadEventFired")
        browser.ask("Runtime.evaluate", {"expression": before})
        browser.listen(0.5)
        picture = browser.ask("Page.captureScreenshot")["data"]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(base64.b64decode(picture))
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path, help="a .png file")
    parser.add_argument("--look", choices=LOOKS, default="light")
    parser.add_argument("--before", default="", help="a script to carry out first")
    parser.add_argument("--width", type=int, default=1100)
    given = parser.parse_args()
    print(shoot(**vars(given)))
