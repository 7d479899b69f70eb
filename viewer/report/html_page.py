"""What every HTML page is made of: it opens offline, escapes what comes from files, and follows light or dark.

A rounded figure has its exact bytes on hover. Cells and parts of pages are HTML already wherever they are passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from memstrata.capture.format.schema import Category

from ..analysis.headline import Line
from ..look.units import bytes_text, difference_text, exact_bytes_text, percent_text
from .layout import markup
from .svg import PICTURE_STYLE

FRAMES = 4
"""Frames of a long stack that are seen at once."""
_STYLE = """
:root { --less: #17693a; --more: #8a4b00; --used: #2f6fc0; }
@media (prefers-color-scheme: dark) { :root { --less: #7fd6a0; --more: #ffc46b; --used: #4d8fe0; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; } h4 { font-size: .95rem; color: var(--dim); margin: 1rem 0 .2rem; }
.answer { font-size: 1.1rem; margin: .3rem 0; } .dim, figcaption { color: var(--dim); } p { margin: .4rem 0; }
.problem { border-left: 3px solid var(--more); padding-left: .7rem; list-style: none; } ul.problems { padding: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .9rem .15rem 0; text-align: right; vertical-align: top; }
th:first-child, td:first-child, .left { text-align: left; } th { color: var(--dim); font-weight: 600; }
td:not(:first-child):not(.left) { white-space: nowrap; } td:first-child, td.left { min-width: 8.5rem; }
tbody tr + tr td { border-top: 1px solid var(--line); } tr.sum td { font-weight: 600; }
td.bar { width: 32%; min-width: 9rem; padding-top: .45rem; } td.bar.long { width: 55%; }
td.bar.short { width: 20%; min-width: 7rem; }
td.bar svg { display: block; width: 100%; height: .8rem; }
td.bar line { stroke: var(--dim); vector-effect: non-scaling-stroke; }
th.bar { text-align: left; }
.less { fill: var(--less); background: var(--less); } .more { fill: var(--more); background: var(--more); }
.rest { fill: var(--dim); background: var(--dim); }
.used { fill: var(--used); background: var(--used); }
td.bar .free { fill: none; stroke: var(--dim); vector-effect: non-scaling-stroke; }
i.free { border: 1px solid var(--dim); box-sizing: border-box; }
.key span { white-space: nowrap; margin-right: .8rem; }
i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
figure svg { width: 100%; min-width: 620px; height: auto; display: block; }
h1, h2, td, p, li, summary, pre { overflow-wrap: anywhere; }
figure { margin: .8rem 0; overflow-x: auto; } pre { margin: .2rem 0; white-space: pre-wrap; }
summary { cursor: pointer; }
.tree details, .tree div { margin-left: 1rem; }
.tree p, .tree .frames { margin: 0 0 .3rem 1rem; color: var(--dim); font-size: .85em; }
.tree .frames details { margin-left: 0; }
li { margin: .3rem 0; }
@media (max-width: 600px) { body { margin: .5rem auto; font-size: 14px; } th, td { padding-right: .6rem; }
  .bar:not(.long) { display: none; } td.bar.long { min-width: 5rem; width: 35%; }
  td:first-child, td.left { min-width: 6rem; } }
@media print { body { max-width: none; margin: 0; font-size: 10pt; } tr, figure { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; } .wide, figure { overflow: visible; } figure svg { min-width: 0; }
  details::details-content { content-visibility: visible; block-size: auto; } }
"""


def page(title: str, parts: Sequence[str], rules: str = PICTURE_STYLE) -> str:
    """The whole page; `rules` are the colours that its parts need."""
    name = markup(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{name}</title>\n'
        f"<style>{_STYLE + rules}</style></head><body>\n<h1>{name}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def section_html(name: str, *body: str, level: int = 2) -> list[str]:
    """A heading and what stands under it; nothing where there is nothing."""
    return [f"<section><h{level}>{markup(name)}</h{level}>", *body, "</section>"] if any(body) else []


def table_html(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (), sums: int = 0, bar: int | None = None
) -> str:
    """The first column and those that `left` numbers are words, the others numbers at the right; the last `sums` rows
    are sums; column `bar` holds bars. Nothing where there are no rows."""
    if not rows:
        return ""

    def kind(column: int) -> str:
        bars = "bar long" if len(head) <= 4 else "bar short" if len(head) > 6 else "bar"
        return ' class="left"' if column in left else f' class="{bars}"' if column == bar else ""

    heads = "".join(f'<th scope="col"{kind(n)}>{markup(cell)}</th>' for n, cell in enumerate(head))
    lines = [f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>']
    for number, row in enumerate(rows):
        cells = "".join(f"<td{kind(n)}>{cell}</td>" for n, cell in enumerate(row))
        of_sum = ' class="sum"' if number >= len(rows) - sums else ""
        lines.append(f"<tr{of_sum}>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def exact_html(text: str, size: int) -> str:
    """Words that say a size, with the exact count on hover."""
    return f'<span title="{exact_bytes_text(size)}">{markup(text)}</span>'


def size_html(size: int | None, unknown: str = "-") -> str:
    """Rounded bytes."""
    return unknown if size is None else exact_html(bytes_text(size), size)


def difference_html(size: int | None) -> str:
    """Rounded bytes with their sign."""
    return "-" if size is None else exact_html(difference_text(size), size)


def line_html(line: Line) -> str:
    """A line of the answer, each of its figures exact on hover."""
    said = (markup(part.text) if part.bytes is None else exact_html(part.text, part.bytes) for part in line.parts)
    return f'<p class="answer">{"".join(said)}</p>'


def told_html(text: str, sizes: Iterable[int]) -> str:
    """A sentence; where one of these sizes stands in it rounded, it is exact on hover. Nothing is said of a figure that
    two of them round to."""
    known: dict[str, set[int]] = {}
    for size in sizes:
        known.setdefault(bytes_text(abs(size)), set()).add(abs(size))
    exact = {markup(text): found.pop() for text, found in known.items() if len(found) == 1}
    if not exact:
        return markup(text)
    figure = re.compile(rf"(?<![\w.,])[+-]?({'|'.join(map(re.escape, exact))})(?!\w)")

    def shown(found: re.Match[str]) -> str:
        sign = -1 if found[0].startswith("-") else 1
        return f'<span title="{exact_bytes_text(sign * exact[found[1]])}">{found[0]}</span>'

    return figure.sub(shown, markup(text))


def category_html(category: Category | int, text: str) -> str:
    """Words with the colour of a category."""
    return f'<i class="c{int(category)}"></i>{markup(text)}'


def share_html(size: int, whole: int) -> str:
    """`99.2%`, of nothing nothing."""
    return markup(percent_text(size / whole)) if whole else ""


Bar = tuple[str, float, float, str]
"""(class, from, to, what it says on hover)"""


def bars_html(bars: Sequence[Bar], low: float, high: float) -> str:
    """Bars in a cell as wide as the table lets it be, on a scale from `low` to `high`, with a mark at 0."""
    wide = high - low or 1.0

    def x(value: float) -> float:
        return (value - low) / wide * 1000

    parts = []
    for kind, start, stop, tip in bars:
        a, b = sorted((x(start), x(stop)))
        box = f'x="{a:.1f}" width="{max(b - a, 2 if a != b else 0):.1f}"'
        parts.append(f'<rect class="{kind}" {box} y="0" height="10"><title>{markup(tip)}</title></rect>')
    zero = f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="10"/>'
    return f'<svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}{zero}</svg>'


def frames_html(frames: Sequence[str]) -> str:
    """Frames of a stack, one below the other; the middle of a long one is folded away."""
    lines = [markup(frame) for frame in frames]
    if len(lines) <= FRAMES + 3:
        return f"<p>{'<br>'.join(lines)}</p>"
    first, middle, last = lines[: FRAMES - 1], lines[FRAMES - 1 : -1], lines[-1]
    folded = f"<details><summary>{len(middle)} more frames</summary>{'<br>'.join(middle)}</details>"
    return f'<div class="frames">{"<br>".join(first)}{folded}{last}</div>'


def problems_html(said: Iterable[tuple[str, Iterable[int]]]) -> str:
    """A list of what is wrong, the gravest first, each sentence with the bytes that it rounds; nothing for none."""
    lines = "".join(f'<li class="problem">{told_html(text, sizes)}</li>' for text, sizes in said)
    return f'<ul class="problems">{lines}</ul>' if lines else ""


def said_html(texts: Iterable[str], kind: str = "dim") -> str:
    """A paragraph for each sentence."""
    of = f' class="{kind}"' if kind else ""
    return "".join(f"<p{of}>{markup(text)}</p>" for text in texts)
