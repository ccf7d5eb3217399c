"""The settings of Sphinx."""

from pathlib import Path

from corrnoise import __version__
from corrnoise.support.headings import anchor

project = "corrnoise"
author = "The corrnoise developers"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "tools.site.rendering",
]

html_theme = "furo"
html_title = "corrnoise"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_last_updated_fmt = None
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_heading_slug_func = anchor
suppress_warnings = ["config.cache", "misc.highlighting_failure"]
exclude_patterns = ["examples"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1000,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}
