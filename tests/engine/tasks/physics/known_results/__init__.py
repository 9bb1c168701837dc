"""Solutions of the shipped physics problems, worked out twice: in closed form with units, and numerically."""
