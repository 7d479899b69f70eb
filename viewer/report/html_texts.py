"""Parts of the HTML page beside its tables: findings, stacks, plans, what else would help, the allocator."""

from __future__ import annotations

from memstrata.capture.format.recording import Recording

from ..analysis.allocator.answer import Question
from ..analysis.findings import findings
from ..look.units import count_text, percent_text
from ..model.query import AllocationQuery
from ..model.run import Run
from ..model.stack_tree import NO_STACK, StackTree, stack_tree
from .allocator_text import allocator_text
from .html_page import section_html, size_html, text_html
from .layout import markup
from .plan_text import Asked, plan_text, plans
from .what_else_text import AskedElse, what_else, what_else_text

LEAST_SHARE = 0.005
"""Of all bytes alive, what a node of the stack tree has that is listed."""
DEEPEST = 60
"""Branchings of the stack tree that are followed."""


def findings_html(run: Run) -> list[str]:
    """Every finding with what to do about it."""
    items = [f"<li><b>{markup(found.text)}</b> {markup(found.suggestion)}</li>" for found in findings(run)]
    return section_html("Findings", f"<ol>{''.join(items)}</ol>") if items else []


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
    names = "<br>".join(markup(frame) for frame in frames)
    said = f"{size_html(size)} ({percent_text(size / tree.total_bytes)})"
    below = [_node(run, tree, int(child), path, depth + 1) for child in children] if depth < DEEPEST else []
    if not any(below):
        return f"<div>{said}, {markup(count_text(int(tree.count[node]), 'allocation'))}<p>{names}</p></div>"
    unfolded = " open" if node in path else ""
    return f"<details{unfolded}><summary>{said}<p>{names}</p></summary>{''.join(below)}</details>"


def _frame(run: Run, row: int) -> str:
    if row == NO_STACK:
        return "no stack"
    name, file, line = run.recording.frame(row)
    return f"{name}  {file}:{line}" if file else name


def plans_html(run: Run) -> list[str]:
    """Peak against time of checkpoint plans, where the recording allows to tell."""
    try:
        text = plan_text(plans(run, Asked()))
    except ValueError:
        return []
    return section_html("Checkpoint plans", *text_html(text, level=3))


def what_else_html(run: Run) -> list[str]:
    """Changes other than checkpoints, where the recording allows to tell."""
    try:
        text = what_else_text(what_else(run, AskedElse()))
    except ValueError:
        return []
    return text_html(_without_title(text))


def allocator_html(recording: Recording, name: str) -> list[str]:
    """The allocator's side of every device."""
    text = allocator_text(recording, name, Question())
    return section_html("Allocator", *text_html(_without_title(text), level=3))


def _without_title(text: str) -> str:
    """The page has the name of the run already."""
    return text.partition("\n")[2]
