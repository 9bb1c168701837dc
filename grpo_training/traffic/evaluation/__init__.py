"""Comparison of policies for traffic lights: in closed loop in SUMO, and on stored decisions."""
