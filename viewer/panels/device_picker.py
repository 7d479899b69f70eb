"""Which device of a file is looked at; only where there are several."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox, QWidget

from ..model.grouping import preferred
from ..state.devices import device_texts, on_device
from ..state.scope import Scope


class DevicePicker(QComboBox):
    """Every device with its peak."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.setAccessibleName("Device")
        self.addItems(device_texts(scope.run))
        self.setCurrentIndex(scope.run.device_row)
        self.activated.connect(self._chosen)

    def _chosen(self, row: int) -> None:
        session, run = self.scope.session, self.scope.run
        if row != run.device_row:
            session.set(on_device(session.state, run, row, preferred(run.on(row))))
