"""What pickle's instructions do, one function each: run at byte p of the buffer, return where the next one begins.

Limits: `MAX_MARKS`, `MAX_TEXT`, `MAX_NUMBER`, `MAX_ODD_KEYS`.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import pickle_errors as errors

if TYPE_CHECKING:
    from .pickle_machine import Machine

MAX_MARKS = 200
"""Lists inside lists; a snapshot has seven."""
MAX_TEXT = 16 << 20
"""Bytes of one text; the longest name of a C++ function seen has 3,289."""
MAX_NUMBER = 4 << 10
"""Bytes of a number. A longer one may be a key again and again, and takes its length to be looked up each time."""
LONG_TEXT = 4 << 10
"""Characters from which on equal texts are one object: two are compared to their ends wherever one is a key."""
MAX_ODD_KEYS = 4096
"""A dict with more entries has texts as keys: made-up numbers could all fall into one slot."""
DICT, LIST, TUPLE = 240, 72, 56
"""Bytes that one takes; a tuple 8 more for each value in it, and what fills the others was on the stack before."""

Instruction = Callable[["Machine", int], int]
_KEYS = frozenset({str, int, float, bool, type(None)})
_TEXT = frozenset({str})
_MEMOIZE = 0x94
_MORE = b"}qr\x94"
"""What an entry begins with, and what may note the one before it."""


def _push(value: Any) -> Instruction:
    def run(machine: Machine, p: int) -> int:
        machine.stack.append(value)
        return p + 1

    return run


def _push_new(kind: type) -> Instruction:
    def run(machine: Machine, p: int) -> int:
        machine.stack.append(kind())
        return p + 1

    return run


def _mark(machine: Machine, p: int) -> int:
    marks, stack = machine.marks, machine.stack
    if len(marks) == MAX_MARKS:
        raise errors.beyond(f"it nests more than {MAX_MARKS} lists")
    marks.append(len(stack))
    p += 1
    if machine.stream.buffer[p] == _MEMOIZE:
        _top(machine)
    if not stack or type(stack[-1]) is not list:
        return p
    if machine.stream.buffer[p] != 0x7D:
        return machine.references(p)
    return machine.reader.take(machine, p, False) if machine.reader is not None and machine.ordered else p


def _since_mark(machine: Machine) -> list[Any]:
    """Take what was pushed since the last mark."""
    at = machine.marks.pop()
    items = machine.stack[at:]
    del machine.stack[at:]
    return items


def _pop(machine: Machine) -> Any:
    """Take the value on top; what stands for many events is none."""
    value = _top(machine)
    machine.stack.pop()
    if type(value) not in _VALUES:
        raise TypeError("an event is not where one can be")
    return value


_VALUES = frozenset({str, int, float, bool, type(None), list, dict, tuple})


def _top(machine: Machine) -> Any:
    """The value on top, which must stand behind the last mark."""
    if machine.marks and machine.marks[-1] == len(machine.stack):
        raise ValueError("a value is missing")
    return machine.stack[-1]


def _setitems(machine: Machine, p: int) -> int:
    stack, at = machine.stack, machine.marks.pop()
    keys, values = stack[at::2], stack[at + 1 :: 2]
    del stack[at:]
    if machine.marks and machine.marks[-1] == at:
        raise ValueError("a value is missing")
    _update_open(machine, stack[-1], keys, values)
    return _after_dict(machine, p + 1)


def _setitem(machine: Machine, p: int) -> int:
    value, key = _pop(machine), _pop(machine)
    _update_open(machine, _top(machine), [key], [value])
    return _after_dict(machine, p + 1)


def _dict(machine: Machine, p: int) -> int:
    items = _since_mark(machine)
    made: dict[Any, Any] = {}
    _update(made, items[::2], items[1::2])
    machine.stack.append(made)
    machine.built += DICT
    return _after_dict(machine, p + 1)


def _update_open(machine: Machine, into: Any, keys: list[Any], values: list[Any]) -> None:
    before = len(into) if type(into) is dict else 0
    _update(into, keys, values)
    if len(into) == before:
        machine.in_vain()


def _update(into: Any, keys: list[Any], values: list[Any]) -> None:
    kinds = set(map(type, keys))
    if type(into) is not dict or len(keys) != len(values) or not (kinds == _TEXT or kinds <= _KEYS):
        raise TypeError("a record is not made of names and values")
    if len(into) + len(keys) > MAX_ODD_KEYS and kinds != _TEXT:
        raise errors.beyond(f"it has a record with more than {MAX_ODD_KEYS:,} numbers as names")
    if not _VALUES.issuperset(map(type, values)):
        raise TypeError("an event is not where one can be")
    into.update(zip(keys, values))


def _after_dict(machine: Machine, p: int) -> int:
    """Behind an event in a list more may follow."""
    if machine.stream.buffer[p] not in _MORE:
        return p
    stack, marks = machine.stack, machine.marks
    if machine.reader is None or not machine.ordered or machine.reader.keys.isdisjoint(stack[-1]):
        return p
    return machine.reader.take(machine, p, True) if marks and 0 < marks[-1] < len(stack) else p


def _appends(machine: Machine, p: int) -> int:
    items = _since_mark(machine)
    _open_list(machine).extend(items)
    if not items:
        machine.in_vain()
    return p + 1


def _append(machine: Machine, p: int) -> int:
    value = _pop(machine)
    _open_list(machine).append(value)
    return p + 1


def _open_list(machine: Machine) -> list[Any]:
    value = _top(machine)
    if type(value) is not list:
        raise TypeError("a list is missing")
    return value


def _tuple(machine: Machine, p: int) -> int:
    made = tuple(_since_mark(machine))
    machine.stack.append(made)
    machine.built += TUPLE + 8 * len(made)
    return p + 1


def _list(machine: Machine, p: int) -> int:
    machine.stack.append(_since_mark(machine))
    machine.built += LIST
    return p + 1


def _tuple_of(n: int) -> Instruction:
    def run(machine: Machine, p: int) -> int:
        machine.stack.append(tuple(_pop(machine) for _ in range(n))[::-1])
        machine.built += TUPLE + 8 * n
        return p + 1

    return run


def _drop(machine: Machine, p: int) -> int:
    machine.in_vain()
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        _pop(machine)
    return _may_note(machine, p + 1)


def _drop_mark(machine: Machine, p: int) -> int:
    machine.in_vain()
    _since_mark(machine)
    return _may_note(machine, p + 1)


def _may_note(machine: Machine, p: int) -> int:
    """A mark, which may be on top here, is nothing to note: the machine itself does not look when it notes a value."""
    if machine.stream.buffer[p] == _MEMOIZE:
        _top(machine)
    return p


def _again(machine: Machine, p: int) -> int:
    value = _pop(machine)
    machine.stack += [value, value]
    return p + 1


def _stop(machine: Machine, p: int) -> int:
    if not machine.stack:
        raise ValueError("there is nothing in it")
    _top(machine)
    machine.done, machine.stop = True, 0
    return p


def _number(n: int, signed: bool = False) -> Instruction:
    def run(machine: Machine, p: int) -> int:
        machine.stack.append(int.from_bytes(machine.stream.buffer[p + 1 : p + 1 + n], "little", signed=signed))
        return p + 1 + n

    return run


def _float(machine: Machine, p: int) -> int:
    machine.stack.append(struct.unpack_from(">d", machine.stream.buffer, p + 1)[0])
    return p + 9


def _get(n: int) -> Instruction:
    def run(machine: Machine, p: int) -> int:
        machine.stack.append(machine.get(int.from_bytes(machine.stream.buffer[p + 1 : p + 1 + n], "little")))
        return p + 1 + n

    return run


def _put(n: int) -> Instruction:
    def run(machine: Machine, p: int) -> int:
        machine.put(int.from_bytes(machine.stream.buffer[p + 1 : p + 1 + n], "little"))
        return p + 1 + n

    return run


def _memoize(machine: Machine, p: int) -> int:
    machine.put(len(machine.memo) + machine.hidden)
    return p + 1


def _sized(width: int, make: Callable[[bytes], Any], most: int = MAX_TEXT) -> Instruction:
    """So many bytes of length, then the value itself."""
    what = "a text of 16 MiB or more" if most == MAX_TEXT else "a number of more than 4,096 bytes"

    def run(machine: Machine, p: int) -> int:
        length = int.from_bytes(machine.stream.buffer[p + 1 : p + 1 + width], "little")
        if length > most:
            raise errors.cut_short() if length > machine.size else errors.beyond(f"it holds {what}")
        p = machine.need(p, 1 + width + length) + 1 + width
        _push_value(machine, make(machine.stream.buffer[p : p + length]))
        return p + length

    return run


def _push_value(machine: Machine, value: Any) -> None:
    if type(value) is str and len(value) > LONG_TEXT:
        value = machine.long_texts.setdefault(value, value)
    machine.stack.append(value)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _old_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _long(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _line(make: Callable[[Machine, bytes], Any]) -> Instruction:
    """A line of text, as protocol 0 writes everything."""

    def run(machine: Machine, p: int) -> int:
        p, end = line_end(machine, p + 1)
        make(machine, machine.stream.buffer[p:end])
        return end + 1

    return run


def line_end(machine: Machine, p: int) -> tuple[int, int]:
    """Where the line that begins at byte p begins and ends, after reading on as far as needed."""
    end = machine.stream.buffer.find(b"\n", p, machine.stream.end)
    while end < 0:
        if machine.stream.end - p > MAX_TEXT:
            raise errors.beyond("it holds a text of 16 MiB or more")
        p = machine.need(p, machine.stream.end - p + 1)
        end = machine.stream.buffer.find(b"\n", p, machine.stream.end)
    return p, end


def _line_number(machine: Machine, line: bytes) -> None:
    flag = {b"00": False, b"01": True}.get(line)
    machine.stack.append(int(line, 0) if flag is None else flag)


def _quoted(machine: Machine, line: bytes) -> None:
    text = line.strip()
    if len(text) < 2 or text[:1] != text[-1:] or text[:1] not in b"\"'":
        raise ValueError("a text has no end")
    _push_value(machine, _old_text(codecs.escape_decode(text[1:-1])[0]))


def _frame(machine: Machine, p: int) -> int:
    length = int.from_bytes(machine.stream.buffer[p + 1 : p + 9], "little")
    return _may_note(machine, machine.restart(p + 9, length))


def _protocol(machine: Machine, p: int) -> int:
    if machine.stream.buffer[p + 1] > 5:
        raise ValueError("its protocol is newer than any")
    return _may_note(machine, p + 2)


def _global(machine: Machine, p: int) -> int:
    op, at = machine.stream.buffer[p], _offset(machine, p)
    first, end = line_end(machine, p + 1)
    module = machine.stream.buffer[first:end]
    first, end = line_end(machine, end + 1)
    name = machine.stream.buffer[first:end]
    raise errors.outside(f"{_old_text(module)}.{_old_text(name)}", op, at)


def _offset(machine: Machine, p: int) -> int:
    return machine.stream.file_offset(machine.stream.base + p)


def _stack_global(machine: Machine, p: int) -> int:
    name, module = _pop(machine), _pop(machine)
    what = f"{module}.{name}" if type(name) is type(module) is str else "something"
    raise errors.outside(what, machine.stream.buffer[p], _offset(machine, p))


def _outside(machine: Machine, p: int) -> int:
    raise errors.outside("something outside the file", machine.stream.buffer[p], _offset(machine, p))


def _refused(machine: Machine, p: int) -> int:
    raise errors.refused(machine.stream.buffer[p], _offset(machine, p))


_PLAIN: dict[bytes, Instruction] = {
    b"(": _mark, b"}": _push_new(dict), b"]": _push_new(list), b")": _push(()), b"N": _push(None),
    b"\x88": _push(True), b"\x89": _push(False), b"K": _number(1), b"M": _number(2), b"J": _number(4, signed=True),
    b"\x8a": _sized(1, _long), b"\x8b": _sized(4, _long, MAX_NUMBER), b"G": _float, b"\x8c": _sized(1, _text),
    b"X": _sized(4, _text), b"\x8d": _sized(8, _text), b"U": _sized(1, _old_text), b"T": _sized(4, _old_text),
    b"h": _get(1), b"j": _get(4), b"q": _put(1), b"r": _put(4), b"\x94": _memoize,
    b"u": _setitems, b"s": _setitem, b"d": _dict, b"e": _appends, b"a": _append, b"l": _list, b"t": _tuple,
    b"\x85": _tuple_of(1), b"\x86": _tuple_of(2), b"\x87": _tuple_of(3), b"0": _drop, b"1": _drop_mark, b"2": _again,
    b".": _stop, b"\x95": _frame, b"\x80": _protocol,
    b"I": _line(_line_number), b"L": _line(lambda machine, line: machine.stack.append(int(line.rstrip(b"L"), 0))),
    b"F": _line(lambda machine, line: machine.stack.append(float(line))), b"S": _line(_quoted),
    b"V": _line(lambda machine, line: _push_value(machine, line.decode("raw-unicode-escape"))),
    b"g": _line(lambda machine, line: machine.stack.append(machine.get(int(line)))),
    b"p": _line(lambda machine, line: machine.put(int(line))),
    b"c": _global, b"i": _global, b"\x93": _stack_global, b"P": _outside, b"Q": _outside,
}  # fmt: skip

OTHERS: list[Instruction] = [_PLAIN.get(bytes([op]), _refused) for op in range(256)]
"""What to do by instruction; all that is not in the list above is refused."""
