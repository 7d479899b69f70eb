"""What the recorder raises by itself: only for misuse, before training starts, never out of a running step."""


class CaptureError(RuntimeError):
    """The recorder cannot do what was asked. The message is one sentence for the user."""
