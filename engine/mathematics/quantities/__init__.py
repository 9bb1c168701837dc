"""Numbers and units as text: numerals, quantities, unit conversion, and the dimensions of rules."""
