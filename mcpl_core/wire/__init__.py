"""JSON-RPC 2.0 without I/O: framing, values, messages, and the peer that correlates them.

The modules are imported by their own names; what applications need of them is re-exported by ``mcpl_core``.
"""

__all__ = ()
