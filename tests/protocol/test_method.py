from __future__ import annotations

from mcpl_core.protocol import method


def test_constants_are_distinct_method_names() -> None:
    names = [getattr(method, constant) for constant in method.__all__]
    assert len(set(names)) == len(names)
    assert all(isinstance(name, str) for name in names)


def test_some_names_that_peers_rely_on() -> None:
    assert method.PUSH_EVENT == "push/event"
    assert method.INITIALIZED == "notifications/initialized"
    assert method.CANCELLED == "notifications/cancelled"
    assert method.TOOLS_LIST_CHANGED == "notifications/tools/list_changed"
    assert method.MCPL_MANIFEST_CHANGED == "mcpl/manifestChanged"
    assert method.ACCESS_TOKEN == "access/token"
