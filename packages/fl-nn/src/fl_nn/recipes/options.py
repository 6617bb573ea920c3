"""Options of commands: the settings of a recipe, and where tensors are computed."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import fl_memory
import fl_tensor as ft
from fl_nn.recipes.rules import SettingRule, kind_of, rule_of
from fl_nn.recipes.settings import RecipeSettings


def recipe_options(parser: argparse.ArgumentParser, recipe: type[RecipeSettings]) -> None:
    """An option for each setting of a recipe; None where it is not given."""
    groups: dict[str, Any] = {}
    for field in fields(recipe):
        rule, kind = rule_of(field), kind_of(field)
        if rule.group not in groups:
            groups[rule.group] = parser.add_argument_group(rule.group)
        add, name = groups[rule.group].add_argument, "--" + field.name.replace("_", "-")
        words = f"{rule.help} ({field.default!r})".replace("%", "%%")
        if kind is bool:
            add(name, action=argparse.BooleanOptionalAction, default=None, help=words)
        elif rule.choices:
            add(name, choices=rule.choices, help=words)
        else:
            metavar = {int: "N", float: "X", str: "TEXT"}[kind]
            add(name, type=ruled_argument(rule, kind), metavar=metavar, help=words)


def given_settings(given: argparse.Namespace, recipe: type[RecipeSettings]) -> dict[str, Any]:
    """The settings of a recipe that options gave."""
    found = {name: getattr(given, name) for name in recipe.names()}
    return {name: value for name, value in found.items() if value is not None}


def ruled_argument(rule: SettingRule, kind: type) -> Callable[[str], Any]:
    """A type for argparse: values of str, int or float that a rule allows."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = text
        problem = rule.problem(value, kind)
        if problem is not None:
            raise argparse.ArgumentTypeError(f"{text!r}: {problem}")
        return value

    return read


def runtime_options(parser: argparse.ArgumentParser) -> None:
    """Where tensors are computed and kept."""
    add = parser.add_argument_group("implementation").add_argument
    add("--backend", metavar="NAME", help="tensor backend; or FL_TENSOR_BACKEND, or the fastest")
    add("--memory", metavar="NAME", help="memory manager; or FL_MEMORY_MANAGER, or caching")


@contextlib.contextmanager
def runtime(given: argparse.Namespace) -> Iterator[None]:
    """Inside the block, the backend and the memory manager that options name."""
    with contextlib.ExitStack() as stack:
        if given.memory is not None:
            stack.enter_context(fl_memory.use(given.memory))
        if given.backend is not None:
            stack.enter_context(ft.use(given.backend))
        yield
