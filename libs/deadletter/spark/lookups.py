"""What PySpark asks the JVM about classes and their functions, asked once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps


@cache  # the classes are changed once, however often a session is started
def remember_lookups() -> None:
    """Keep each class and static function that the JVM has named, for as long as the object that was asked lives.

    PySpark looks both up again for every column that it makes: some ten thousand times in a run, half the time by a
    short name, for which the JVM searches all jars in vain first. That is a fifth of a small run. What is loaded
    stays: only finds are kept, and neither a package nor a field, which may change.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JVMView  # not there where PySpark is a client only

    for asked, kept in ((JVMView, JavaClass), (JavaClass, JavaMember)):
        asked.__getattr__ = _kept(asked.__getattr__, kept)


def _kept(look_up: Callable[[object, str], object], kind: type) -> Callable[[object, str], object]:
    @wraps(look_up)
    def found_once(self: object, name: str) -> object:
        found = look_up(self, name)
        if type(found) is kind:
            self.__dict__[name] = found
        return found

    return found_once
