"""The errors needle raises. Each message names the op, the rule, the sizes and the remedy, and types in one manner."""


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


def with_article(name: str) -> str:
    """Put "a" or "an" in front of the name of a type, as it is read aloud.

    >>> with_article("list"), with_article("int"), with_article("ndarray"), with_article("LSTM")
    ('a list', 'an int', 'an ndarray', 'an LSTM')
    """
    spelled = name.startswith("nd") or (name[:2].isupper() and name[0] in "AEFHILMNORSX")
    return f"{'an' if spelled or name[0] in 'aeioAEIO' else 'a'} {name}"


def kind_of(value: object) -> str:
    """Say of what type an object is, for a message.

    >>> kind_of(3), kind_of(None)
    ('an int', 'None')
    """
    return "None" if value is None else with_article(type(value).__name__)


def sentence(error: Exception) -> str:
    """Give an error's text for people: that of a file without the system's number.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "a.npz"))
    'a.npz: no such file or directory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)
