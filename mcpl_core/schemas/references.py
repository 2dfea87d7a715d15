"""Where the schemas inside a schema are, and what their references lead to (JSON Schema 2020-12 and older).

Owns: the dialects, the keywords that hold schemas, base URIs, anchors and pointers, all within one document. Does not
own: what a keyword demands of a value (the library does), and anything outside the document: a reference that leaves
it is an error, except for the published meta-schemas, which the library carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote, urljoin

from ..trees import at_key, at_steps
from .errors import SchemaError

__all__ = ("DIALECTS", "DRAFT_2020", "Place", "References", "Schema", "Steps", "subschemas")

#: A schema as JSON Schema has it: an object, or ``true`` or ``false``.
Schema: TypeAlias = dict[str, Any] | bool

_2020: Final = "https://json-schema.org/draft/2020-12/schema"
_WEB: Final = re.compile(r"https?://(.*?)#?")
DRAFT_2020: Final = "Draft202012Validator"
#: ``$schema`` without its fragment -> the attribute of the library that validates this dialect.
DIALECTS: Final = {
    _2020: DRAFT_2020,
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
#: In these a ``$ref`` silences every member beside it.
_LONELY_REF: Final = frozenset({"Draft7Validator", "Draft6Validator", "Draft4Validator"})
_META: Final = re.compile(r"https?://json-schema\.org/draft")

_ONE: Final = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_LIST: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_MAP: Final = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
#: Schemas that are only there to be referred to.
_STORE: Final = frozenset({"$defs", "definitions"})
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")

#: Member names and indices, from the outside in.
Steps: TypeAlias = tuple[str | int, ...]


class Place(NamedTuple):
    """One schema of the document.

    Attributes:
        schema: the object or boolean.
        steps: how to get there from the root of the document.
    """

    schema: Schema
    steps: Steps


def subschemas(schema: dict[str, Any], stored: bool = True) -> Iterator[tuple[Steps, Schema]]:
    """The schemas directly inside one, with the steps to them.

    Args:
        stored: also those that are only there to be referred to (``$defs``).
    """
    for keyword, value in schema.items():
        if isinstance(value, dict | bool) and keyword in _ONE:
            yield (keyword,), value
        elif isinstance(value, list) and keyword in _LIST:
            yield from (((keyword, index), sub) for index, sub in enumerate(value) if isinstance(sub, dict | bool))
        elif isinstance(value, dict) and (keyword in _MAP or (stored and keyword in _STORE)):
            yield from (((keyword, name), sub) for name, sub in value.items() if isinstance(sub, dict | bool))


class References:
    """The schemas of one document and where its references lead.

    Args:
        schema: a plain tree of which no object stands in two places; it is kept, and must not change.

    Attributes:
        root: the document's own place.
        dialect: the attribute of the library that validates it; 2020-12 when ``$schema`` is absent.
        lonely: a ``$ref`` silences what stands beside it.

    Raises:
        SchemaError: an unknown ``$schema`` (``dialect``), or a reference that leads nowhere (``reference``).
    """

    def __init__(self, schema: Schema) -> None:
        self.root = Place(schema, ())
        self.dialect = _dialect(schema)
        self.lonely = self.dialect in _LONELY_REF
        self._places: dict[int, Place] = {}
        self._bases: dict[int, str] = {}
        self._resources: dict[str, Place] = {}
        self._anchors: dict[tuple[str, str], Place] = {}
        self._targets: dict[int, list[Place]] = {}
        self._walk(self.root, "")
        self._resources.setdefault("", self.root)
        done = 0
        while done < len(self._places):
            fresh = list(self._places.values())[done:]
            done = len(self._places)
            for place in fresh:
                self._resolve_all(place)

    def place(self, schema: dict[str, Any]) -> Place:
        """Where one of the document's schemas stands."""
        return self._places[id(schema)]

    def targets(self, schema: dict[str, Any]) -> list[Place]:
        """What the references that stand in this very schema lead to; meta-schemas are left out."""
        return self._targets.get(id(schema), [])

    def target(self, schema: dict[str, Any]) -> Place | None:
        """What its ``$ref`` leads to, if it has one and it leads into the document."""
        return next(iter(self.targets(schema)), None) if "$ref" in schema else None

    def _walk(self, start: Place, base: str) -> None:
        unfinished = [(start, base)]
        while unfinished:
            place, base = unfinished.pop()
            schema = place.schema
            if not isinstance(schema, dict) or id(schema) in self._places:
                continue
            self._places[id(schema)] = place
            base = self._name(place, schema, base)
            self._bases[id(schema)] = base
            unfinished += [(Place(sub, place.steps + steps), base) for steps, sub in subschemas(schema)]

    def _name(self, place: Place, schema: dict[str, Any], base: str) -> str:
        """Notes the names that a schema gives itself, and returns its base URI."""
        name = schema.get("$id", schema.get("id") if self.dialect == "Draft4Validator" else None)
        if isinstance(name, str) and not (self.lonely and "$ref" in schema):
            uri, _, fragment = _join(base, name).partition("#")
            if fragment:
                self._anchors.setdefault((uri, fragment), place)
            else:
                base = uri
                self._resources.setdefault(base, place)
        for keyword in _ANCHORS:
            if isinstance(anchor := schema.get(keyword), str):
                self._anchors.setdefault((base, anchor), place)
        return base

    def _resolve_all(self, place: Place) -> None:
        schema = place.schema
        assert isinstance(schema, dict)  # booleans are not kept
        for keyword in _REFERENCES:
            if isinstance(reference := schema.get(keyword), str):
                base = self._bases[id(schema)]
                target = self._resolve(reference, base, at_steps((*place.steps, keyword)))
                if target is not None:
                    self._targets.setdefault(id(schema), []).append(target)
                    self._walk(target, base)

    def _resolve(self, reference: str, base: str, path: str) -> Place | None:
        uri, _, fragment = _join(base, reference).partition("#")
        fragment = unquote(fragment)
        resource = self._resources.get(uri)
        if resource is None:
            if _META.match(uri):
                return None
            raise SchemaError("reference", "it leads out of the schema, and nothing is fetched", path)
        found = resource if not fragment else self._anchors.get((uri, fragment))
        if fragment.startswith("/"):
            found = _follow(resource, fragment)
        if found is None or not isinstance(found.schema, dict | bool):
            raise SchemaError("reference", "it leads to no schema", path)
        return found


def _dialect(schema: Schema) -> str:
    named = schema.get("$schema", _2020) if isinstance(schema, dict) else _2020
    # ``http`` and ``https`` are mixed up in practice; nothing is fetched by either.
    read = _WEB.fullmatch(named) if isinstance(named, str) else None
    found = None if read is None else DIALECTS.get(f"https://{read[1]}", DIALECTS.get(f"http://{read[1]}"))
    if found is None:
        raise SchemaError("dialect", "no known dialect of JSON Schema", at_key("$", "$schema"))
    return found


def _join(base: str, reference: str) -> str:
    """RFC 3986 5.2, also for bases such as ``urn:`` that the standard library does not join with."""
    if _SCHEME.match(reference):
        return reference
    if reference.startswith("#"):
        return base + reference
    try:
        return urljoin(base, reference)
    except ValueError:  # brackets that hold no address
        return reference


def _follow(resource: Place, pointer: str) -> Place | None:
    """RFC 6901, from the root of a resource."""
    value: Any = resource.schema
    steps: list[str | int] = list(resource.steps)
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and token in value:
            value = value[token]
            steps.append(token)
        elif isinstance(value, list) and _INDEX.fullmatch(token) and int(token) < len(value):
            value = value[int(token)]
            steps.append(int(token))
        else:
            return None
    return Place(value, tuple(steps))
