"""memstrata.viewer: shows, compares and explains recordings and snapshots."""
