"""The layers, the import rules and the shape of the public surface, read from the source with ``ast``."""

from __future__ import annotations

import ast
import graphlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "mcpl_core"

#: Unit (a module or subpackage at the top) -> layer. The root itself re-exports layers 0 to 4.
LAYERS = {
    "_version": 0, "errors": 0, "trees": 0, "capabilities": 0, "content": 0, "uris": 0,
    "tags": 0, "treatment": 0, "ontology": 0,
    "wire": 1,
    "protocol": 2,
    "grants": 3, "receipts": 3, "negotiation": 3, "manifest": 3, "inbox": 3,
    "connection": 4, "constructors": 4, "dispatch": 4, "intake": 4, "listening": 4, "observers": 4,
    "options": 4, "outlet": 4, "timeouts": 4, "transports": 4, "": 4,
    "host": 5, "server": 5, "relay": 5, "schemas": 5, "testing": 5,
    "toolsets": 6, "mcp": 6, "catalog": 6, "approvals": 6,
    "cli": 7, "__main__": 7,
}  # fmt: skip
#: Unit -> units of its own layer that it may import.
SIBLINGS = {
    "trees": {"errors"},
    "capabilities": {"errors", "trees"},
    "content": {"errors", "trees"},
    "tags": {"errors", "trees"},
    "treatment": {"errors", "trees", "tags"},
    "ontology": {"errors", "trees", "tags", "treatment"},
    "uris": {"errors"},
    "receipts": {"grants"},
    "negotiation": {"grants", "receipts"},
    "manifest": {"grants"},
    "outlet": {"transports"},
    "timeouts": {"transports"},
    "listening": {"transports"},
    "dispatch": {"outlet", "transports"},
    "intake": {"dispatch", "observers", "outlet", "transports"},
    "constructors": {"listening", "options", "transports"},
    "connection": {"constructors", "dispatch", "intake", "observers", "options", "outlet", "timeouts", "transports"},
    "approvals": {"catalog"},
    "": {"connection", "dispatch", "listening", "options", "transports"},
    "__main__": {"cli"},
}
EXTRAS = {
    "httpx2", "jsonpatch", "jsonpointer", "jsonschema_rs", "mcp", "mcp_types", "psycopg", "rich", "starlette", "typer",
    "uvicorn",
}  # fmt: skip
#: Takes longer to import than the rest together (the WebSocket library, the SDK, the gate); loaded where it is needed.
SLOW = {
    f"{PACKAGE}.cli.approvals_work", f"{PACKAGE}.cli.authority", f"{PACKAGE}.cli.demo_arcade",
    f"{PACKAGE}.transports.websocket", f"{PACKAGE}.mcp.serving.http_server", f"{PACKAGE}.mcp.http.session",
    f"{PACKAGE}.mcp.http.retrying",
}  # fmt: skip
BACKENDS = {"asyncio", "trio", "outcome", "uvloop"}
IMPURE = {
    "anyio", "asyncio", "io", "logging", "os", "pathlib", "random", "secrets", "selectors", "socket",
    "subprocess", "tempfile", "threading", "time", "trio", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input"}
#: Folders of tests that are about no single module.
UNMAPPED_TESTS = {"benchmarks", "contract", "vectors", "interaction"}


class Import(NamedTuple):
    target: str
    line: int
    nested: bool


class Module(NamedTuple):
    name: str
    path: Path
    tree: ast.Module
    imports: list[Import]

    @property
    def unit(self) -> str:
        return _unit(self.name)

    @property
    def layer(self) -> int:
        return LAYERS.get(self.unit, max(LAYERS.values()))


def _unit(name: str) -> str:
    return (name.split(".") + [""])[1]


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {_name(path): path for path in sorted((ROOT / PACKAGE).rglob("*.py"))}


def _targets(node: ast.stmt, name: str, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
            base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
        for alias in node.names:
            yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in PATHS else base


def _imports(node: ast.AST, name: str, path: Path, nested: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield from (Import(target, child.lineno, nested) for target in _targets(child, name, path))
        inside = nested or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _imports(child, name, path, inside)


def _read(name: str, path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return Module(name, path, tree, list(_imports(tree, name, path)))


MODULES = [_read(name, path) for name, path in PATHS.items()]
PURE = [module for module in MODULES if module.layer <= 3]
PUBLIC = [module for module in MODULES if not any(part.startswith("_") for part in module.name.split("."))]


def _breaches(modules: list[Module], forbidden: set[str]) -> list[str]:
    return [
        f"{module.name}:{found.line} imports {found.target}"
        for module in modules
        for found in module.imports
        if found.target.split(".")[0] in forbidden
    ]


def _inner(module: Module) -> Iterator[Import]:
    return (found for found in module.imports if found.target.split(".")[0] == PACKAGE)


def test_every_unit_has_a_layer() -> None:
    assert {module.unit for module in MODULES} <= LAYERS.keys()


def test_modules_import_only_from_lower_layers() -> None:
    breaches = []
    for module in MODULES:
        allowed = SIBLINGS.get(module.unit, set()) | {module.unit}
        for found in _inner(module):
            unit = _unit(found.target)
            if LAYERS.get(unit, module.layer) >= module.layer and unit not in allowed:
                breaches.append(f"{module.name}:{found.line} imports {found.target}")
    assert breaches == []


def test_named_siblings_share_a_layer() -> None:
    assert [(unit, name) for unit, names in SIBLINGS.items() for name in names if LAYERS[unit] != LAYERS[name]] == []


def test_no_import_cycles() -> None:
    graph = {module.name: {found.target for found in _inner(module)} - {module.name} for module in MODULES}
    graphlib.TopologicalSorter(graph).prepare()


def test_imports_stand_at_the_top() -> None:
    """Inside a function only optional extras, event loop backends, modules made for one backend, and what is slow."""
    breaches = []
    for module in MODULES:
        for found in module.imports:
            one_backend = set(re.split(r"[._]", found.target)) & BACKENDS
            if (
                found.nested
                and not one_backend
                and found.target.split(".")[0] not in EXTRAS
                and found.target not in SLOW
            ):
                breaches.append(f"{module.name}:{found.line} imports {found.target}")
    assert breaches == []


def test_libraries_stay_where_they_belong() -> None:
    carriers = [module for module in MODULES if not module.name.startswith(f"{PACKAGE}.transports.websocket")]
    stores = [module for module in MODULES if module.path.name != "store.py"]
    below_runtimes = [module for module in MODULES if module.layer < 5]
    assert _breaches(PURE, {"anyio"}) == []
    assert _breaches(carriers, {"websockets"}) == []
    assert _breaches(stores, {"sqlite3"}) == []
    assert _breaches(below_runtimes, EXTRAS) == []


def test_lower_layers_are_pure() -> None:
    assert _breaches(PURE, IMPURE) == []
    assert [
        f"{module.name}:{node.lineno}"
        for module in PURE
        for node in ast.walk(module.tree)
        if isinstance(node, ast.AsyncFunctionDef)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS)
    ] == []


def test_host_and_server_never_meet_below_the_command() -> None:
    both = {"host", "server"}
    assert [
        module.name
        for module in MODULES
        if module.layer < 7 and both <= {module.unit} | {_unit(found.target) for found in _inner(module)}
    ] == []


def test_a_server_with_toolsets_needs_no_host() -> None:
    users = {
        module.name
        for module in MODULES
        if module.unit == "toolsets" and "host" in {_unit(found.target) for found in _inner(module)}
    }
    assert users == {f"{PACKAGE}.toolsets.host"}
    code = f"import sys, {PACKAGE}.toolsets; print('{PACKAGE}.host' in sys.modules)"
    run = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "False"


def test_importing_the_package_stays_light() -> None:
    code = f"import json, sys, {PACKAGE}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    loaded: list[str] = json.loads(run.stdout)
    heavy = {unit for unit, layer in LAYERS.items() if layer >= 5}
    assert PACKAGE in loaded
    assert [name for name in loaded if name.split(".")[0] == PACKAGE and _unit(name) in heavy] == []
    assert {name.split(".")[0] for name in loaded} & (EXTRAS | {"sqlite3", "trio", "uvloop"}) == set()


def _bound(statements: list[ast.stmt], reexports: bool) -> Iterator[str]:
    """The names that these statements define; imports from this package count where they re-export."""
    for node in statements:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "TypeVarTuple"))):
                pass  # names for the type checker, not for importers
            case ast.Assign(targets=targets):
                yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.ImportFrom(names=aliases, module=source, level=level) if reexports:
                if level or (source or "").split(".")[0] == PACKAGE:
                    yield from (alias.asname or alias.name for alias in aliases)
            case ast.If(body=body, orelse=orelse):
                yield from _bound([*body, *orelse], reexports)
            case ast.Try(body=body, handlers=handlers, orelse=orelse):
                yield from _bound([*body, *(s for h in handlers for s in h.body), *orelse], reexports)


def _listed(module: Module) -> tuple[str, ...] | None:
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            value = ast.literal_eval(node.value)
            return value if isinstance(value, tuple) else None
    return None


def test_all_lists_what_the_module_defines() -> None:
    missing, extra = set(), set()
    for module in PUBLIC:
        listed = _listed(module)
        names = {name for name in _bound(module.tree.body, module.path.name == "__init__.py") if name[0] != "_"}
        missing |= {f"{module.name}.{name}" for name in names - set(listed or ())}
        extra |= {f"{module.name}.{name}" for name in set(listed or ()) - names - {"__version__"}}
    assert [module.name for module in PUBLIC if _listed(module) is None] == []
    assert (sorted(missing), sorted(extra)) == ([], [])


def test_all_names_nothing_twice() -> None:
    assert [module.name for module in PUBLIC if len(set(_listed(module) or ())) != len(_listed(module) or ())] == []


def test_top_level_names_come_from_the_lists_of_their_modules() -> None:
    (root,) = (module for module in MODULES if module.name == PACKAGE)
    lists = {module.name: _listed(module) or () for module in MODULES}
    strays = []
    for node in root.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias, source in zip(node.names, _targets(node, root.name, root.path), strict=True):
                whole_module = source.endswith(f".{alias.name}")
                if not (whole_module or alias.name in lists.get(source, ()) or alias.name == "__version__"):
                    strays.append(f"{source}.{alias.name}")
    assert strays == []


def _test_path(module: Module) -> Path:
    inside = module.path.relative_to(ROOT / PACKAGE)
    return ROOT / "tests" / inside.parent / f"test_{inside.stem.lstrip('_')}.py"


TESTED = [module for module in MODULES if module.path.stem not in {"__init__", "_version", "__main__"}]


def test_modules_have_a_test_file() -> None:
    assert [module.name for module in TESTED if not _test_path(module).is_file()] == []


def test_test_files_belong_to_a_module() -> None:
    expected = {_test_path(module) for module in TESTED}
    nested = [path for path in (ROOT / "tests").rglob("test_*.py") if path.parent != ROOT / "tests"]
    mapped = [path for path in nested if path.relative_to(ROOT / "tests").parts[0] not in UNMAPPED_TESTS]
    assert [str(path.relative_to(ROOT)) for path in mapped if path not in expected] == []


def test_the_coverage_gate_names_the_pure_layers() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    gated = re.search(r"^GATED := (.+)$", makefile, re.MULTILINE)
    assert gated is not None
    units = {re.sub(r"(/\*)?\.py$", "", name) for name in gated[1].split()}
    assert units == {unit for unit, layer in LAYERS.items() if layer <= 3 and unit != "_version"}
