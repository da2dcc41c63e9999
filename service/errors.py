"""Everything that delbo raises on purpose.

    DelboError
    ├── ModelError       the model document, or something built from it, is wrong
    ├── DataError        observations or a data file are wrong
    ├── TopologyError    a graph or its mixing weights cannot work
    ├── SettingError     an option or argument is out of its range
    └── NumericalError   arithmetic left the numbers that a belief may have

A message is one sentence for someone who has not read the paper: what is wrong, where, and what would be right.
"""


class DelboError(Exception):
    """Base of all errors that delbo raises on purpose."""


class ModelError(DelboError):
    """The model document, or something built from it, is wrong."""


class DataError(DelboError):
    """Observations or a data file are wrong."""


class TopologyError(DelboError):
    """A graph or its mixing weights cannot work."""


class SettingError(DelboError):
    """An option or argument is out of its range."""


class NumericalError(DelboError):
    """Arithmetic left the numbers that a belief may have."""
