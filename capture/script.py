"""`memstrata record`: runs somebody's unmodified training script in this process, and records a step of it.

The script sees what it would see under `python`: its arguments, itself as `__main__`, its folder first on `sys.path`;
its exit status and its tracebacks are its own. torch is imported when the script imports it, not before: what a script
sets in its environment first must count.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from .after_import import AfterImport
from .output_path import writable

if TYPE_CHECKING:
    from .recorder import Recorder

INTERRUPTED = 130
"""Exit status of a program that an interrupt from the keyboard ends."""


FIRST = 3
"""The step that is recorded where none is named: optimizer state exists then, and the steps before it are timed."""


class ScriptError(ValueError):
    """The script cannot be started. The message is one sentence."""


@dataclass(frozen=True)
class Script:
    """A program ready to run: its code, and what its `__main__` is."""

    code: CodeType
    arguments: tuple[str, ...]
    folder: str
    main: ModuleType


@dataclass(frozen=True)
class Request:
    """What is to be recorded of a script; see `Recorder`."""

    output: str
    step: int | None = None
    steps: int | None = None
    on: str | None = None
    keep: int | None = None

    def check(self) -> None:
        """Raises ScriptError or CaptureError before anything runs."""
        writable(self.output)
        for name, number, least in (("step", self.step, 0), ("steps", self.steps, 1), ("keep", self.keep, 0)):
            if number is not None and number < least:
                raise ScriptError(f"--{name} cannot be {number}.")
        for name, number in (("step", self.step), ("steps", self.steps)):
            if self.on is not None and number is not None:
                raise ScriptError(f"--on and --{name} exclude each other: --on records whichever step it happens in.")
        if self.on is None and self.keep is not None:
            raise ScriptError("--keep counts the steps before the one that --on waits for, and needs --on.")

    def recorder(self) -> Recorder:
        """The recorder that does it; imports torch."""
        from .recorder import Recorder

        if self.on is not None:
            return Recorder(self.output, on=self.on, keep=self.keep)
        recorder = Recorder(self.output, steps=self.steps or 1, warmup=FIRST if self.step is None else self.step)
        recorder.option = "--step "
        return recorder


def record(request: Request, name: str, arguments: Sequence[str], is_module: bool) -> int:
    """Run a script or module to its end, record what is asked for, and return the exit status.

    That is the program's own, or 2 if it succeeded and nothing was recorded, which is said on stderr. The recorder
    begins once torch has been imported. Raises SystemExit as the program does, ScriptError or CaptureError before it
    has begun.
    """
    request.check()
    return _run(script_module(name, arguments) if is_module else script_file(name, arguments), request)


def script_file(path: str, arguments: Sequence[str]) -> Script:
    """The script in a file, as `python FILE ARGUMENTS` runs it. Raises ScriptError."""
    full = os.path.abspath(path)
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as error:
        raise ScriptError(f"{path} cannot be opened: {(error.strerror or str(error)).lower()}.") from error
    main = _main(full, None, importlib.machinery.SourceFileLoader("__main__", full))
    return Script(_compiled(source, full), (path, *arguments), os.path.dirname(os.path.realpath(path)), main)


def script_module(name: str, arguments: Sequence[str]) -> Script:
    """A module, or the `__main__` of a package, as `python -m NAME ARGUMENTS` runs it. Raises ScriptError."""
    with _first_on_path(os.getcwd()):
        spec = _spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name, spec = f"{name}.__main__", _spec(f"{name}.__main__")
        code = getattr(spec.loader, "get_code", lambda _: None)(name) if spec is not None else None
    if spec is None or code is None:
        raise ScriptError(f"There is no module {name} that can be run.")
    main = _main(spec.origin or name, spec, spec.loader)
    return Script(code, (spec.origin or name, *arguments), os.getcwd(), main)


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return None


def _compiled(source: bytes, path: str) -> CodeType:
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        shown = "".join(traceback.format_exception_only(error)).strip()
        raise ScriptError(f"{path} is not a Python program: {' '.join(shown.split())}") from error


def _main(path: str, spec: importlib.machinery.ModuleSpec | None, loader: Any) -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__.update(__file__=path, __spec__=spec, __loader__=loader, __cached__=None, __builtins__=__builtins__)
    main.__package__ = spec.parent if spec is not None else None
    return main


def _run(script: Script, request: Request) -> int:
    recording = _Recording(request.recorder)
    with recording.when_torch_comes():
        error = _executed(script)
    outcome = recording.end(error)
    if outcome.said is not None and sys.stderr is not None:
        print(f"memstrata: {outcome.said}", file=sys.stderr, flush=True)
    if error is not None and (not isinstance(error, SystemExit) or error.code not in (None, 0)):
        return _left_by(error)
    armed_in_vain = request.on is not None and bool(outcome.steps)  # nothing bad happened, which is no failure
    return 0 if outcome.written or armed_in_vain else 2


@dataclass(frozen=True)
class Outcome:
    """What came of recording a script: whether the file was written, how many steps ended, and what is left to say."""

    written: bool
    steps: int = 0
    said: str | None = None


class _Recording:
    """The recorder of a script, from the moment at which torch is there."""

    def __init__(self, make_recorder: Callable[[], Recorder]) -> None:
        self._make_recorder = make_recorder
        self._recorder: Recorder | None = None
        self._failure: Exception | None = None

    @contextmanager
    def when_torch_comes(self) -> Iterator[None]:
        """Begin when torch has been imported, which it may be already."""
        finder = AfterImport("torch", self._begin)
        if "torch" in sys.modules:
            self._begin()
        else:
            sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)

    def _begin(self) -> None:
        try:
            self._recorder = self._make_recorder()
            self._recorder.__enter__()
        except Exception as failure:  # the script imports torch here, and that has worked
            self._failure = failure

    def end(self, error: BaseException | None) -> Outcome:
        """The script has ended. A recorder that began says by itself why it recorded nothing."""
        if self._failure is not None:
            return Outcome(False, said=f"nothing was recorded: {self._failure}")
        if self._recorder is None:
            return Outcome(False, said="the script never imported torch: nothing was recorded.")
        left = error if not isinstance(error, SystemExit) or error.code not in (None, 0) else None
        self._recorder.__exit__(type(left) if left else None, left, None)
        return Outcome(self._recorder.written, self._recorder.steps_seen)


def _executed(script: Script) -> BaseException | None:
    """Run the code as `__main__`, which it stays, and return what left it; its traceback begins in the script."""
    sys.argv[:] = script.arguments
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0:1] = [script.folder]
    sys.modules["__main__"] = script.main
    try:
        exec(script.code, script.main.__dict__)
    except BaseException as error:
        error.__traceback__ = _of_the_script(error.__traceback__)
        return error
    return None


def _of_the_script(trace: TracebackType | None) -> TracebackType | None:
    return trace.tb_next if trace is not None else None


@contextmanager
def _first_on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _left_by(error: BaseException) -> int:
    """The exit status of a program that this ends; what Python would print is printed, SystemExit raised again."""
    if isinstance(error, SystemExit):
        raise error
    sys.excepthook(type(error), error, error.__traceback__)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
