"""Where a step ends in a program that does not say: behind the last optimizer step before the next forward.

- Gradient accumulation: the forwards and backwards up to an optimizer step belong to one step.
- Several optimizers that step one after another, or one per parameter inside backward, end one step together.
- Two optimizers with a forward between them (adversarial training) end two steps.
- An iteration whose optimizer does not step (a gradient scaler that met an infinity) belongs to the next step.
- An evaluation belongs to the step after it, as does loading its data and setting gradients to zero.
- An optimizer whose closure runs forward and backward (LBFGS, Lightning) ends a step each time it returns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.optim import Optimizer
from torch.optim import optimizer as torch_optimizer

from .format.schema import NONE
from .step_log import thread_id
from .step_sequence import Mark, StepSequence


class StepBoundaries:
    """Tells a sequence of steps where each one ends, by two global hooks."""

    def __init__(self, steps: StepSequence) -> None:
        self.optimizer_steps = 0
        """How often an optimizer has stepped."""
        self._steps = steps
        self._mark: Mark | None = None
        self._stepped_inside_backward = False
        self._thread = NONE
        self._handles: list[Any] = []

    def install(self) -> None:
        """Begin the first step. The steps' own hooks on optimizers are called before these."""
        self._thread = thread_id()
        self._steps.open()
        self._handles = [nn_module.register_module_forward_pre_hook(self._before_forward)]
        self._steps.prepare()
        self._handles.append(torch_optimizer.register_optimizer_step_post_hook(self._after_step))
        self._steps.begin()

    def remove(self, error: BaseException | None = None) -> None:
        """No more steps come; `error` ended them."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._steps.close(error, self._last_mark())

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.optimizer_steps += 1
        if self._steps.done:
            return
        if torch._C._current_graph_task_id() != NONE:  # on a GPU this is another thread, on which nothing can begin
            self._stepped_inside_backward = True
        elif thread_id() == self._thread:
            self._mark = self._steps.possible_end()

    def _before_forward(self, module: nn.Module, args: Any) -> None:
        if self._mark is None and not self._stepped_inside_backward:
            return
        if torch.compiler.is_compiling() or thread_id() != self._thread:
            return
        if torch._C._current_graph_task_id() == NONE:  # a recomputation inside backward is no forward
            mark = self._last_mark()
            if mark is not None:
                self._steps.passed(mark)

    def _last_mark(self) -> Mark | None:
        """The mark behind the last optimizer step since the last step ended, if there was one."""
        mark, late = self._mark, self._stepped_inside_backward
        self._mark, self._stepped_inside_backward = None, False
        return self._steps.possible_end() if late and not self._steps.done else mark
