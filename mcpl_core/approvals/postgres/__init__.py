"""Approvals in PostgreSQL."""

from .store import PostgresApprovalStore

__all__ = ("PostgresApprovalStore",)
