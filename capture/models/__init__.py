"""Models that memstrata itself records: the demo's."""
