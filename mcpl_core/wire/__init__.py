"""JSON-RPC 2.0 without I/O: framing, values, messages, and the peer that correlates them."""
