"""`memstrata record` and `memstrata dry-run` in a process of their own, with live output, cancel and an answer."""

from __future__ import annotations

import codecs
import contextlib
import importlib.util
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from memstrata.capture.format.files import RANKS_FOLDER

from ..look.units import seconds_text

_PATIENCE_MS = 3000
"""How long a process may take to end by itself once it was asked to."""
_OURS = "memstrata: "
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Command:
    """What to run: arguments of `memstrata`, the folder to run in, and the recording it is to write."""

    arguments: tuple[str, ...]
    folder: str
    output: str
    """Full path."""

    @property
    def text(self) -> str:
        """As one would type it."""
        return shlex.join(("memstrata", *self.arguments))


@dataclass(frozen=True)
class Ended:
    """How it ended. `sentence` is empty if all went well, `recording` the path if one was written: of a file, or of
    the folder of its ranks where they are several."""

    sentence: str
    recording: str | None
    cancelled: bool = False


def why_not(*modules: str) -> str:
    """One sentence where this Python lacks a module that is needed; nothing is imported to find out."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return ""
    install = "'memstrata[capture]'" if missing == ["torch"] else " ".join(missing)
    return f"This needs {' and '.join(missing)}, which {sys.executable} does not have: pip install {install}"


class Process(QObject):
    """One process at a time. It and what it started are gone when this object is."""

    said = Signal(str)
    """A piece of its output and errors, as it comes."""
    ended = Signal(object)
    """The `Ended`."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process = QProcess(self)
        self._process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        self._process.setStandardInputFile(QProcess.nullDevice())
        if hasattr(self._process, "setUnixProcessParameters") and os.name == "posix":
            # a group of its own, so that workers of the script end with it
            self._process.setUnixProcessParameters(QProcess.UnixProcessFlag.CreateNewSession)
        self._process.readyRead.connect(self._read)
        self._process.finished.connect(self._finished)
        self._process.errorOccurred.connect(self._failed)
        self._kill = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._kill.timeout.connect(lambda: self._signal(signal.SIGKILL))
        self._since = 0.0
        self._group = 0

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.state() != QProcess.ProcessState.NotRunning

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._since

    def start(self, command: Command) -> None:
        """Start it; `ended` follows, whatever happens."""
        assert not self.is_running
        self._command, self._cancelled, self._tail = command, False, ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._before, self._since = _stamps(command.output), time.monotonic()
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("PYTHONUNBUFFERED", "1")
        self._process.setProcessEnvironment(environment)
        self._process.setWorkingDirectory(command.folder)
        self._process.start(sys.executable, ["-m", "memstrata.viewer", *command.arguments])
        self._group = self._process.processId()

    def cancel(self) -> None:
        """Ask it to end, and make it end if it takes too long."""
        if self.is_running and not self._cancelled:
            self._cancelled = True
            self._signal(signal.SIGTERM)
            self._kill.start()

    def shutdown(self) -> None:
        """End it now; `ended` is not emitted any more."""
        self._kill.stop()
        self._process.blockSignals(True)
        if self.is_running:
            self._signal(signal.SIGKILL)
            self._process.waitForFinished(_PATIENCE_MS)

    def _signal(self, number: int) -> None:
        try:
            if self._group and os.getpgid(self._group) == self._group:
                os.killpg(self._group, number)
                return
        except (AttributeError, OSError):
            pass  # no process groups here, or it ended just now
        if number == signal.SIGTERM:
            self._process.terminate()
        else:
            self._process.kill()

    def _read(self) -> None:
        self._say(self._decoder.decode(self._process.readAll().data()))

    def _say(self, text: str) -> None:
        text = _TERMINAL.sub("", text)
        if text:
            self._tail = (self._tail + text)[-4000:]
            self.said.emit(text)

    def _failed(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:  # of other errors `finished` tells
            self.ended.emit(Ended(f"{self._command.text} cannot be started: {self._process.errorString()}.", None))

    def _finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._kill.stop()
        self._say(self._decoder.decode(self._process.readAll().data(), final=True))
        recording = _written(self._command.output, self._before)
        crashed = status == QProcess.ExitStatus.CrashExit
        self.ended.emit(Ended(self._sentence(code, crashed, recording), recording, self._cancelled))

    def _sentence(self, code: int, crashed: bool, recording: str | None) -> str:
        if self._cancelled:
            return f"Cancelled after {seconds_text(self.seconds)}."
        lines = [line.strip() for line in re.split(r"[\r\n]", self._tail) if line.strip()]
        if crashed:
            memory = "; the system kills what takes too much memory" if code == signal.SIGKILL else ""
            return f"It was ended by signal {code}{memory}."
        if code:
            last = lines[-1] if lines else "it said nothing"
            return last.removeprefix(_OURS) if last.startswith(_OURS) else f"It ended with exit status {code}: {last}"
        if recording is None:
            return f"It ended well, but wrote no {os.path.basename(self._command.output)}."
        return ""


def _stamps(output: str) -> dict[str, tuple[int, int]]:
    """What changes when a file is written again, of the output and of what lies in the folder of its ranks."""
    ranks = output + RANKS_FOLDER
    names = os.listdir(ranks) if os.path.isdir(ranks) else []
    found = {}
    for path in (output, *(os.path.join(ranks, name) for name in names)):
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            found[path] = (stat.st_mtime_ns, stat.st_ino)
    return found


def _written(output: str, before: dict[str, tuple[int, int]]) -> str | None:
    """The file that was written since; the folder of its ranks where they were several; None for nothing."""
    new = {path for path, stamp in _stamps(output).items() if before.get(path) != stamp}
    return output + RANKS_FOLDER if new - {output} else output if new else None


def free_name(folder: str, name: str) -> str:
    """The path in that folder, with a number before its ending where the name is taken."""
    stem, ending = os.path.splitext(name)
    path, number = os.path.join(folder, name), 2
    while os.path.lexists(path) or os.path.lexists(path + RANKS_FOLDER):
        path, number = os.path.join(folder, f"{stem}-{number}{ending}"), number + 1
    return path


def record_command(
    program: str, is_module: bool, arguments: str, which: Sequence[str], folder: str, output: str
) -> Command:
    """`memstrata record` of a script or module. `which` are the options that choose the step, such as `--step 3`.

    Raises ValueError with one sentence for what cannot be run.
    """
    program, output = program.strip(), os.path.join(folder, output.strip())
    if not program:
        raise ValueError("Name the module to run." if is_module else "Choose the script to run.")
    if not os.path.isdir(folder):
        raise ValueError(f"There is no folder {folder}.")
    if not is_module and not os.path.isfile(os.path.join(folder, program)):
        raise ValueError(f"There is no file {program}.")
    check_output(output)
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise ValueError(f"The arguments cannot be split into words: {str(error).lower()}.") from error
    what = ("-m", program) if is_module else (program,)
    return Command(("record", *which, "-o", output, *what, *words), folder, output)


def dry_run_command(options: Sequence[str], folder: str, output: str) -> Command:
    """`memstrata dry-run`. The first two `options` say which model: `--preset teaching`, or `--hf-config` and a file.

    Raises ValueError with one sentence for what cannot be run.
    """
    output = os.path.join(folder, output.strip())
    check_output(output)
    if options[0] == "--hf-config" and not os.path.isfile(options[1]):
        raise ValueError(f"There is no file {options[1]}." if options[1] else "Choose the config.json of the model.")
    return Command(("dry-run", *options, "-o", output), folder, output)


def check_output(output: str) -> None:
    """Raises ValueError with one sentence where no recording can be written there."""
    if os.path.isdir(output):
        raise ValueError(f"{output} is a folder; name the file to write.")
    if not os.path.isdir(os.path.dirname(output)):
        raise ValueError(f"There is no folder {os.path.dirname(output)}.")
