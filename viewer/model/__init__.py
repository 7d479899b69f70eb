"""What a recording says: lifetimes, curves, attribution, grouping, queries. No Qt, no torch."""
