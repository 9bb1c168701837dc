"""How pages are put together, served and exported. The pages themselves are in ``view.pages``."""
