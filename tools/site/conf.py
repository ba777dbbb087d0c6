"""How the documentation looks; `build.py` gathers what is in it."""

from dray import __version__

project = "dray"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"dray {release}"
html_copy_source = False
myst_heading_anchors = 3
autodoc_typehints = "none"
suppress_warnings = [
    "ref.python",  # annotations name types of other packages
    "docutils",  # docstrings are prose with Markdown in them
]
