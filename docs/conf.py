"""How Sphinx builds the site: `make docs`."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent / "_ext")]

project = "lambda-sagas"
author = "The lambda-sagas authors"
release = metadata.version("lambda-sagas")
version = ".".join(release.split(".")[:2])
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "llms", "terms"]
exclude_patterns = ["examples", "_static", "_ext", "_templates"]
nitpicky = True
# No inventory of another project is fetched. Names of ours must resolve.
nitpick_ignore_regex = [("py:.*", r"(?!sagas\.(cdk\.|testing\.)?[A-Z]).*")]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Class keywords", "params_style"), ("Keys", "params_style")]

html_theme = "furo"
html_title = f"lambda-sagas {version}"
html_static_path = ["_static"]
html_js_files = ["versions.js", "reach.js"]
html_search_scorer = str(Path(__file__).parent / "_ext" / "scorer.js")
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/versions.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"source_directory": "docs/"}
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


def setup(app: Sphinx) -> None:
    """Have the generated pages written before Sphinx looks for pages."""
    import generated

    app.connect("builder-inited", lambda _app: generated.write(generated.PAGES))
