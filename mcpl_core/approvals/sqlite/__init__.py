"""Approvals in one SQLite file."""

from .store import SqliteApprovalStore

__all__ = ("SqliteApprovalStore",)
