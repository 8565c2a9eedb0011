"""The errors needle raises. Each message names the op, the rule, the sizes and the remedy."""


class ShapeError(ValueError, AssertionError):
    """Shapes, axes or sizes that do not fit together.

    Course code asserts where it checks shapes, so this is an AssertionError too.
    """


class BoundsError(ShapeError, IndexError):
    """An index or a label outside its range."""


class DTypeError(TypeError):
    """A dtype, or a kind of argument, that an operation cannot take."""


class OptionError(ValueError):
    """A setting outside its range, or none of the choices."""


class DeviceError(RuntimeError):
    """A device that is not there, or operands on different devices."""


class GradientError(RuntimeError):
    """A gradient that cannot be computed, or one that an op returned wrongly."""


class AnomalyError(FloatingPointError):
    """A NaN or an infinity where `needle.detect_anomaly` looked for them."""


class FileFormatError(ValueError):
    """A data file or checkpoint that is truncated, corrupt or of a foreign format."""


class MissingExtraError(ImportError):
    """An optional library that is not installed; the message says which extra brings it."""


def sentence(error: Exception) -> str:
    """Give an error's text for people: that of a file without the system's number.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "a.npz"))
    'a.npz: no such file or directory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)
