"""What every HTML page is made of: it opens offline, escapes what comes from files, and follows light or dark."""

from __future__ import annotations

from collections.abc import Sequence

from ..look.units import bytes_text, exact_bytes_text
from .layout import goes_on, markup
from .svg import PICTURE_STYLE

_STYLE = """
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.2rem; } h2 { font-size: 1.05rem; margin-top: 2rem; } h3 { font-size: 1rem; color: var(--dim); }
.answer { font-size: 1.1rem; margin: .3rem 0; } .dim, figcaption { color: var(--dim); }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .9rem .15rem 0; text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } th { color: var(--dim); font-weight: 600; }
tr + tr td { border-top: 1px solid var(--line); }
i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem; }
svg { width: 100%; height: auto; }
h1, td, p, li, summary, pre { overflow-wrap: anywhere; }
figure { margin: 0; overflow-x: auto; } pre { margin: .2rem 0; white-space: pre-wrap; } summary { cursor: pointer; }
.tree details, .tree div { margin-left: 1rem; } .tree p { margin: 0 0 .3rem 1rem; color: var(--dim); font-size: .85em; }
li { margin: .3rem 0; }
"""


def page(title: str, parts: Sequence[str], rules: str = PICTURE_STYLE) -> str:
    """The whole page; `parts` are HTML already, `rules` the colours that they need."""
    name = markup(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{name}</title>\n'
        f"<style>{_STYLE + rules}</style></head><body>\n<h1>{name}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def section_html(name: str, *body: str, level: int = 2) -> list[str]:
    """A heading and what stands under it, HTML already."""
    return [f"<section><h{level}>{markup(name)}</h{level}>", *body, "</section>"]


def table_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already."""
    lines = ["<table><tr>" + "".join(f"<th>{markup(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table>"])


def size_html(size: int) -> str:
    """Rounded, with the exact count on hover."""
    return f'<span title="{exact_bytes_text(size)}">{bytes_text(size)}</span>'


def text_html(text: str, level: int = 2) -> list[str]:
    """A report in 80 columns: its sentences as paragraphs, its tables as they are under headings of this level."""
    parts = []
    for block in filter(None, text.strip("\n").split("\n\n")):
        head, *rest = _unwrapped(block.split("\n"))
        if rest and all(line.startswith("  ") for line in rest):
            parts += section_html(head, f"<pre>{chr(10).join(map(markup, rest))}</pre>", level=level)
        else:
            parts += [f"<p>{markup(line)}</p>" for line in (head, *rest)]
    return parts


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Sentences that begin at the left edge in one line each; what is indented itself stays as it is."""
    out: list[str] = []
    latest = ""
    for line in lines:
        if out and not out[-1].startswith(" ") and line.startswith("  ") and goes_on(latest, line):
            out[-1] += line[1:]
        else:
            out.append(line)
        latest = line
    return out
