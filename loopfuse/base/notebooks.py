"""What IPython shows of an error that is the user's: the user's lines, and the message last."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def users_part(found: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this package."""
    if found is None:
        return None
    rest = users_part(found.tb_next)
    if found.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return rest
    return TracebackType(rest, found.tb_frame, found.tb_lasti, found.tb_lineno)


def render_for_ipython(
    error: BaseException, bare: BaseException, whole: bool = False
) -> list[str]:
    """The lines of IPython's own display, in the user's `%xmode`; `bare`: the error without what
    it came from, which its message has said. `whole`: with every frame."""
    kept = error.__traceback__ if whole else users_part(error.__traceback__)
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return traceback.format_exception(type(bare), bare, kept, chain=whole)
    return list(shell.InteractiveTB.structured_traceback(type(bare), bare, kept))
