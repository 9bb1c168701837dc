"""Group statistics, paired comparisons, pass@k."""
