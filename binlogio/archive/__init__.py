"""Archives of binary logs: what they hold, and what can be made of them without a server.

Each module has one function for users; the command of the same name prints what it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.archive.info import LogInfo, log_infos

__all__ = ["LogInfo", "log_infos"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(__name__, {"info": "LogInfo log_infos"})
