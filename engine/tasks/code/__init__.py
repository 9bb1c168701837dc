"""Python programs, judged by tests."""

DATASET_NAMES = ("mbpp", "apps")
ROW_FIELDS = ("tests", "input_output", "test_list", "public_test_cases", "entry_point")
