"""What follows from a recording: prediction, difference, headline. No Qt, no torch."""
