"""Traffic signals: extend the current green or switch, scored by SUMO."""
