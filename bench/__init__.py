"""Speed, as ratios and figures of one run; never asserted by the tests."""
