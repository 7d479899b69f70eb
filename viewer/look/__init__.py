"""How things look in words and colours, without Qt: units, display words, palettes."""
