"""Reports out of model and analysis: text and JSON."""
