"""Traffic signals: extend the current green or switch, scored by SUMO."""

ROW_FIELDS = ("phase_metrics",)
