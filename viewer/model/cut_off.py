"""Where a recorded step stopped before its end: an error ended it."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE

from .events import DeviceEvents


def cut_off_position(recording: Recording, events: DeviceEvents) -> int | None:
    """The position at which the step began that did not come to its end; None where every step did. From there on
    nothing is known of what the step would still have used and let go of."""
    steps = recording.steps
    stopped = np.flatnonzero(steps.recorded & (steps.end_time == NONE))
    if len(stopped):
        return int(events.before_tick(steps.start_time[stopped[:1]])[0])
    return 0 if any(problem.code == "step_raised" for problem in recording.meta.problems) else None
