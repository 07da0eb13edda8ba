import sys
from pathlib import Path

import entrometer

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Entrometer"
author = "The Entrometer authors"
copyright = author
version = release = entrometer.__version__

extensions = [
    # Markdown, and notebooks in percent format, which it runs.
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "gallery",
    "markdown_docstrings",
    "mathml",
    "test_role",
]
exclude_patterns = ["_build", "_ext", "conf.py", "figures/*.py", "licences.py"]

nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

html_math_renderer = "mathml"
html_theme = "furo"
html_title = "Entrometer"
html_static_path = ["_static"]
# Copied as they are: a page that `entrometer demo` wrote, and the list of pages for
# language models, which links to the Markdown that Sphinx copies to _sources.
html_extra_path = ["example-diagnosis.html", "llms.txt"]
html_css_files = ["site.css"]

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
napoleon_numpy_docstring = False

nitpicky = True
# Names of Python and of other projects, which this site does not link to: links would
# need their inventories, and so a network, at every build.
nitpick_ignore_regex = [
    (
        r"py:.*",
        r"(collections|jaxtyping|numpy|np|os|pandas|pathlib|polars|pyarrow|random|scipy|torch)\..*",
    ),
    (r"py:class", r"Tensor|ndarray|NDArray"),
    # Names that a module imports for the type checker only.
    (r"py:class", r"Plot|Request|Samples|Step|Subject|Table|TokenMap"),
    # Functions with a type variable inside.
    (r"py:class", r".*\b(OfRuns?|OfRunsInRoom|Tables_contra|Tables_co|Value)\b.*"),
    (r"py:class", r"Mapping\[str"),
    # Results of functions, which their docstrings describe.
    (r"py:class", r"entrometer\..*\.(Interval|Predicted|ReadDump)"),
    (r"py:class", r"entrometer\.policy\.shared_prompts\.(Bucket|Segment)"),
    # Type variables: the settings and tables of any experiment, any function or class
    # that makes a task, any loss of tokens.
    (r"py:class", r"entrometer\.experiments\.experiment\.(Config|Tables)"),
    (r"py:class", r"entrometer\.report\.kinds\.Tables"),
    (r"py:class", r"entrometer\.tasks\.registry\.Factory"),
    (r"py:class", r"entrometer\.interventions\.registry\.Function"),
]
