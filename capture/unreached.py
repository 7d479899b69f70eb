"""What is said where a program ended before the step to be recorded: how far it came, and what records its last one."""

from __future__ import annotations

from .messages import counted


def loop_text(steps: int, warmup: int, optimizer_steps: int, error: BaseException | None, cut_off: bool,
              option: str) -> str:  # fmt: skip
    """Of a loop in which so many steps ended; `cut_off` if the error ended another one, which had begun.

    `option` is what names the step to record, up to its number.
    """
    kind = type(error).__name__
    if cut_off and not isinstance(error, SystemExit):
        return f"step {steps:,} raised {kind} before step {warmup:,} began: nothing was recorded; use {option}{steps}."
    how = "" if error is None or isinstance(error, SystemExit) else f" before it raised {kind}"
    if not optimizer_steps:
        return f"no optimizer stepped{how}, so there was no step: nothing was recorded."
    return f"only {counted(steps, 'step')} ran{how}: nothing was recorded; use {option}{max(0, steps - 1)}."


def calls_text(name: str, calls: int, warmup: int, error: str) -> str:
    """Of a decorated function; `error` is the kind that the last of its calls raised, empty for none."""
    raised = f", and {'the last call ' if calls > 1 else ''}raised {error}" if error else ""
    return (
        f"{name} was called {'once' if calls == 1 else f'{calls:,} times'}{raised}: nothing was recorded, since"
        f" recording begins after {counted(warmup, 'call')}; use warmup={calls - 1} to record the last one."
    )
