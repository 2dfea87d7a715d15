"""Options that several commands share, in groups, and commands that are told where to connect.

Owns: how a group of options (a dataclass) becomes parameters of a command, and that whatever follows ``--`` is a
command to run, word by word. Does not own: the groups (``target``, ``listening``).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from typer.core import TyperCommand

__all__ = ("CommandWithTarget", "command_after_dashes", "with_option_groups")

_WORDS = "mcpl_core.cli.command"


class CommandWithTarget(TyperCommand):
    """A command whose line may end with ``-- PROGRAM ARGUMENT...``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_WORDS] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def command_after_dashes(context: Any) -> list[str] | None:
    """The words that followed ``--``; ``None`` without ``--``."""
    words: list[str] | None = context.meta.get(_WORDS)
    return words


def with_option_groups(function: Callable[..., int]) -> Callable[..., int]:
    """The function with each parameter that is annotated with a dataclass replaced by the fields of that dataclass.

    The fields have ``typer`` annotations and defaults, as parameters of a command have; all are keywords.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters, annotations = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            group = groups[parameter.name]
            field_hints = get_type_hints(group, include_extras=True)
            found = [(field.name, field_hints[field.name], _default(field)) for field in dataclasses.fields(group)]
        else:
            found = [(parameter.name, hints[parameter.name], parameter.default)]
        for name, hint, default in found:
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
            annotations[name] = hint

    @functools.wraps(function)
    def command(**values: Any) -> int:
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            values[name] = group(**{field: values.pop(field) for field in fields})
        return function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = annotations | {"return": int}
    return command


def _default(field: dataclasses.Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
