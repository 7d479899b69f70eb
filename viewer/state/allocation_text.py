"""What a point of the picture of allocations says on hover."""

from __future__ import annotations

import numpy as np

from ..look import words
from ..look.units import bytes_text, exact_bytes_text
from ..model.frame_names import frame_name
from ..model.layout import AddressLayout
from ..model.run import Run
from .ahead import first_frames
from .run_tables import born_text, freed_text, module_text, what_text


def allocation_text(run: Run, row: int) -> str:
    """An allocation in a few lines: bytes, what it is, where it belongs, what made it, when and where it lives."""
    a, attribution = run.allocations, run.attribution
    size, what = int(a.bytes[row]), what_text(run, row)
    lines = [f"{bytes_text(size)} ({exact_bytes_text(size)})"]
    lines.append(words.category_text(int(attribution.category[row])) + (f": {what}" if what else ""))
    layer, module = int(attribution.layer[row]), module_text(run, int(attribution.module[row]))
    if module or layer >= 0:
        lines.append(module or run.layers.labels[layer])
    if a.stack[row] >= 0:
        lines.append(f"made in {frame_name(run.recording, int(run.once(first_frames)[a.stack[row]]))}")
    address = f"address 0x{int(a.address[row]):x}, " if a.address[row] else ""
    lines.append(f"{address}allocated {born_text(run, row)}, freed {freed_text(run, row)}")
    return "\n".join(lines)


def place_text(layout: AddressLayout, position: int, y: float) -> str:
    """An address where nothing is allocated."""
    address = layout.address_at(y)
    if address is None:
        return "addresses that nothing ever used, closed up" if 0 <= y < layout.height else ""
    r = layout.ranges
    inside = (r.address <= address) & (address < r.address + r.bytes) & (r.start <= position) & (position < r.end)
    found = np.flatnonzero(inside).tolist()
    if not found:
        held = "not reserved at this moment" if len(r) else "nothing allocated here at this moment"
        return f"address 0x{address:x}: {held}"
    pool = " of a private pool" if r.private[found[0]] else ""
    return f"address 0x{address:x}: free, in an allocator segment of {bytes_text(int(r.bytes[found[0]]))}{pool}"
