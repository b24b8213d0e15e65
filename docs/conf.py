# conf.py - configures Sphinx for the site; docs/build.sh runs it on the pages that stage.py made.
"""Names of the C interface in inline code become links to their headers' pages."""
import json
import os
import re

from docutils import nodes

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def version_of(header):
    with open(os.path.join(ROOT, header), encoding="utf-8") as f:
        text = f.read()
    return ".".join(re.search(rf"#define WEIR_VERSION_{part} (\d+)", text)[1]
                    for part in ("MAJOR", "MINOR", "PATCH"))


project = "Weir"
author = "The Weir authors"
project_copyright = "The Weir authors, Apache-2.0"
version = release = version_of("include/weir/base.h")

extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 6
myst_enable_extensions = []
suppress_warnings = ["myst.header"]       # measured tables begin as they were printed
primary_domain = None
highlight_language = "c"
pygments_style = "friendly"
pygments_dark_style = "native"
smartquotes = False             # texts of C in quotes stay as they are
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 96

html_theme = "furo"
html_title = f"Weir {version}"
html_static_path = ["static"]
html_css_files = ["weir.css"]
html_copy_source = False
html_show_sphinx = False
html_permalinks_icon = "#"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6b78", "color-brand-content": "#0b6b78"},
    "dark_css_variables": {"color-brand-primary": "#5cc7d4", "color-brand-content": "#5cc7d4"},
}
copybutton_exclude = ".linenos, .gp, .go"


def link_names(app, doctree):
    """Makes `weir_relu` in inline code a link to its declaration."""
    known = app.config.weir_names
    for literal in list(doctree.findall(nodes.literal)):
        name = re.sub(r"\(.*\)$", "", literal.astext())
        if name not in known or isinstance(literal.parent, nodes.reference):
            continue
        page, anchor = known[name]
        here = app.env.docname
        uri = app.builder.get_relative_uri(here, page) if page != here else ""
        link = nodes.reference("", "", refuri=f"{uri}#{anchor}", internal=True)
        literal.replace_self(link)
        link += literal


def setup(app):
    with open(os.path.join(app.srcdir, "names.json"), encoding="utf-8") as f:
        names = json.load(f)
    app.add_config_value("weir_names", names, "env")
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True}
