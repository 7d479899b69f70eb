"""The tree of stacks of one run as a section of a page."""

from __future__ import annotations

from ..look.units import count_text, percent_text
from ..model.query import AllocationQuery
from ..model.run import Run
from ..model.stack_tree import NO_STACK, StackTree, stack_tree
from .html_page import frames_html, section_html, size_html
from .layout import markup

LEAST_SHARE = 0.005
"""Of all bytes alive, what a node of the stack tree has that is listed."""
DEEPEST = 60
"""Branchings of the stack tree that are followed."""


def stacks_html(run: Run) -> list[str]:
    """Who called what is alive at the peak: callers above callees, the heaviest path unfolded."""
    if "stacks" not in run.capabilities or not run.peak_bytes:
        return []
    tree = stack_tree(run, AllocationQuery(position=run.peak_position).select(run))
    path = set(tree.heaviest_path())
    nodes = "".join(_node(run, tree, int(node), path) for node in tree.children(-1))
    when = "at the peak" if "timeline" in run.capabilities else "at the end"
    note = f"Outermost frames first; those with less than {percent_text(LEAST_SHARE)} of the bytes are left out."
    return section_html(f"Stacks {when}", f'<p class="dim">{markup(note)}</p>', f'<div class="tree">{nodes}</div>')


def _node(run: Run, tree: StackTree, node: int, path: set[int], depth: int = 0) -> str:
    """A node and what is below it; a row of frames that share all their bytes is one."""
    size, frames = int(tree.bytes[node]), [_frame(run, int(tree.frame[node]))]
    if size < LEAST_SHARE * tree.total_bytes:
        return ""
    while len(children := tree.children(node)) and int(tree.bytes[children[0]]) == size:
        node = int(children[0])
        frames.append(_frame(run, int(tree.frame[node])))
    names = frames_html(frames)
    said = f"{size_html(size)} ({markup(percent_text(size / tree.total_bytes))})"
    below = [_node(run, tree, int(child), path, depth + 1) for child in children] if depth < DEEPEST else []
    if not any(below):
        return f"<div>{said}, {markup(count_text(int(tree.count[node]), 'allocation'))}{names}</div>"
    unfolded = " open" if node in path else ""
    return f"<details{unfolded}><summary>{said}{names}</summary>{''.join(below)}</details>"


def _frame(run: Run, row: int) -> str:
    if row == NO_STACK:
        return "no stack"
    name, file, line = run.recording.frame(row)
    return f"{name}  {file}:{line}" if file else name
