"""Toolsets: tools that come and go, with instances that belong to a principal, for every host.

Beyond SPEC 0.5: RFC-014 and RFC-015 are unpublished, and the shapes are provisional (SPEC_NOTES R-toolsets-1).
"""

from ..schemas import Checker
from .checking import Validate
from .clock import Clock, SystemClock
from .context import InstanceContext, ToolsetContext
from .declaration import Instance, InstanceLoader, InstanceOpener, Toolset, read_toolset
from .errors import AccessDenied, ToolsetStoreError
from .keeping import ToolsetStore
from .server import ToolsetServer
from .store import FileToolsetStore

__all__ = (
    "AccessDenied",
    "Checker",
    "Clock",
    "FileToolsetStore",
    "Instance",
    "InstanceContext",
    "InstanceLoader",
    "InstanceOpener",
    "SystemClock",
    "Toolset",
    "ToolsetContext",
    "ToolsetServer",
    "ToolsetStore",
    "ToolsetStoreError",
    "Validate",
    "read_toolset",
)
