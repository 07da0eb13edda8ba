"""Templates of HTML pages: everything that they show of a run is escaped."""

from functools import cache
from pathlib import Path

import jinja2

from entrometer.report.text import carried, shown


@cache
def environment(*folders: Path) -> jinja2.Environment:
    """Return the templates of the report, and those in `folders`, which come first.

    Values are escaped, and a value that is missing raises.
    """
    loader = jinja2.FileSystemLoader([*folders, Path(__file__).parent])
    templates = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {"shown": shown, "carried": carried}
    return templates
