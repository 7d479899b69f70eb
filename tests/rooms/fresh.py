"""Imports modules in a fresh interpreter in which some packages cannot be imported, and says who tried."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Runs in the fresh interpreter. An attempt counts even if the importing code catches the error, since `try: import
# torch` at the top of a module costs seconds wherever torch is there. The traceback is walked for the culprit.
PROGRAM = """
import importlib, json, sys

order = json.loads(sys.argv[1])
sys.path[:0] = order["path"]
attempts = []

def is_or_is_in(name, packages):
    return any(name == p or name.startswith(p + ".") for p in packages)

def importer():
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename[:1] == "<" or frame.f_globals.get("__name__") == "importlib"):
        frame = frame.f_back
    return frame.f_globals.get("__name__", "?") if frame else "?"

def forbidden(name):
    excepted = is_or_is_in(name, order["except"]) or any(is_or_is_in(e, [name]) for e in order["except"])
    return is_or_is_in(name, order["never"]) and not excepted

def foreign(name):
    known = {*sys.stdlib_module_names, *order["only"]}
    return order["only"] and name.partition(".")[0] not in known and is_or_is_in(importer(), order["watched"])

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if forbidden(name) or foreign(name):
            attempts.append(f"{importer()} imports {name}")
            raise ModuleNotFoundError(f"{name} is blocked", name=name)
        return None

sys.meta_path.insert(0, Blocker())
failures = []
for module in order["modules"]:
    try:
        importlib.import_module(module)
    except BaseException as error:
        failures.append(f"{module}: {type(error).__name__}: {error}")
print(json.dumps(attempts + failures))
"""


@dataclass(frozen=True)
class Rules:
    """What a room may import. Names are packages, and stand for everything inside them."""

    never: tuple[str, ...]
    """Never imported, by whomever."""
    only: tuple[str, ...] = ()
    """If given: beside the standard library the room's own modules import nothing else."""
    exceptions: tuple[str, ...] = ()
    """Allowed although `never` names a package around it (and so are the packages around them, by themselves)."""


def broken_rules(modules: list[str], rules: Rules, path: Path | None = None) -> list[str]:
    """One line for each forbidden import, and for each module that cannot be imported; `path` goes onto sys.path."""
    order = {
        "modules": modules,
        "never": rules.never,
        "only": rules.only,
        "except": rules.exceptions,
        "watched": sorted({".".join(m.split(".")[:2]) for m in modules}),
        "path": [str(path)] if path else [],
    }
    command = [sys.executable, "-I", "-c", PROGRAM, json.dumps(order)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))
