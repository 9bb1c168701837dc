"""The values of a template with attributes, as a template reads them."""


class Attributes(dict):
    """A mapping whose items are attributes too."""

    def __getattr__(self, name):
        try:
            return attributes(self[name])
        except KeyError:
            raise AttributeError(name) from None


def attributes(value):
    """A value whose mappings have attributes, at any depth."""
    if isinstance(value, dict):
        return Attributes(value)
    return [attributes(entry) for entry in value] if isinstance(value, list) else value
