"""memstrata.capture.format: the recording file, shared by recorder and viewer. Standard library and numpy only."""
