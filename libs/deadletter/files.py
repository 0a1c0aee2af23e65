"""Files that others read while they are made."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

CANNOT_RENAME = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def put_in_place(new: Path, target: Path) -> None:
    """Put a whole file in the place of another, or of none: at once, and what was there stays if that fails. Where the
    storage cannot rename, as some volumes cannot, by a copy, and ``new`` is left if that is cut short.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "new").write_text("b"), (folder / "old").write_text("a")
    >>> put_in_place(folder / "new", folder / "old")
    >>> [(path.name, path.read_text()) for path in folder.iterdir()]
    [('old', 'b')]
    """
    try:
        new.replace(target)
    except OSError as error:
        if error.errno not in CANNOT_RENAME:
            raise
        shutil.copyfile(new, target)
        new.unlink()
