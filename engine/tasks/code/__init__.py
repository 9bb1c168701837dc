"""Python programs, judged by tests."""

DATASET_NAMES = ("mbpp", "apps")
ROW_FIELDS = ("tests", "input_output", "test_list", "entry_point")
