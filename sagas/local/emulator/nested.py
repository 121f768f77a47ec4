"""Flattens nested stacks, because the emulator cannot update them. Their resources move to the outer template.

ministack 1.5.33 creates and deletes nested stacks, but fails to update them (``Requested attribute Arn does not exist
in schema for AWS::SQS::Queue``). Each logical id gets a prefix that is made from the id of its stack, so it is the same
in each deployment.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

NESTED = "AWS::CloudFormation::Stack"
_VARIABLE = re.compile(r"\$\{([^!}][^}]*)\}")
_SECTIONS = ("Conditions", "Mappings")

Template = dict[str, Any]


def prefix_of(id: str) -> str:
    return f"N{hashlib.sha256(id.encode()).hexdigest()[:8]}"


def flattened(template: Template, load: Callable[[Any], Template]) -> Template:
    """Return a template without nested stacks that creates the same resources."""
    stacks = {id: resource for id, resource in template["Resources"].items() if resource["Type"] == NESTED}
    if not stacks:
        return template
    inner = {
        id: _Inner(id, stack, flattened(load(stack["Properties"]["TemplateURL"]), load)) for id, stack in stacks.items()
    }
    own = {id: resource for id, resource in template["Resources"].items() if id not in stacks}
    for nested in inner.values():
        own |= nested.section("Resources")
    merged = {**template, "Resources": own}
    for section in _SECTIONS:
        parts = [template.get(section, {}), *(nested.section(section) for nested in inner.values())]
        merged |= {section: {id: value for part in parts for id, value in part.items()}} if any(parts) else {}
    return _Outer(inner).rewritten(merged)


class _Inner:
    """Translates the template of a nested stack, which has no nested stacks itself, for the outer template. ``id`` and
    ``stack`` are the id and the resource of the nested stack in the outer template."""

    def __init__(self, id: str, stack: Template, template: Template) -> None:
        self._prefix = prefix_of(id)
        self._template = template
        self._needs: list[str] = _as_list(stack.get("DependsOn", []))
        arguments = stack["Properties"].get("Parameters", {})
        parameters: Template = template.get("Parameters", {})
        defaults = {name: parameter.get("Default", "") for name, parameter in parameters.items()}
        self._values: Template = {**defaults, **arguments}
        self.ids = [self._renamed(name) for name in template["Resources"]]

    def section(self, name: str) -> Template:
        entries = {self._renamed(id): self._rewritten(entry) for id, entry in self._template.get(name, {}).items()}
        if name == "Resources" and self._needs:
            for resource in entries.values():
                resource["DependsOn"] = [*_as_list(resource.get("DependsOn", [])), *self._needs]
        return entries

    def output(self, name: str) -> Any:
        return self._rewritten(self._template["Outputs"][name]["Value"])

    def _renamed(self, id: str) -> str:
        return f"{self._prefix}{id}"

    def _outer_id(self, id: str) -> str:
        """Return an id as it is in the outer template. Pseudo parameters do not change."""
        return id if id.startswith("AWS::") else self._renamed(id)

    def _rewritten(self, value: Any) -> Any:
        match value:
            case {"Ref": str(name)} if len(value) == 1:
                return self._values[name] if name in self._values else {"Ref": self._outer_id(name)}
            case {"Fn::GetAtt": [str(id), attribute]}:
                return {"Fn::GetAtt": [self._renamed(id), attribute]}
            case {"Fn::Sub": str(text)}:
                return self._substituted(text, {})
            case {"Fn::Sub": [str(text), variables]}:
                return self._substituted(text, self._rewritten(variables))
            case {"Fn::If": [str(condition), *branches]}:
                return {"Fn::If": [self._renamed(condition), *self._rewritten(branches)]}
            case {"Fn::FindInMap": [str(mapping), *keys]}:
                return {"Fn::FindInMap": [self._renamed(mapping), *self._rewritten(keys)]}
            case dict():
                return {key: self._entry(key, member) for key, member in cast("Template", value).items()}
            case list():
                return [self._rewritten(item) for item in cast("list[Any]", value)]
            case _:
                return value

    def _entry(self, key: str, value: Any) -> Any:
        if key == "DependsOn":
            return [self._renamed(id) for id in _as_list(value)]
        # In a policy, a Condition is an object. If it is a text, it names a condition of the template.
        if key == "Condition" and isinstance(value, str):
            return self._renamed(value)
        return self._rewritten(value)

    def _substituted(self, text: str, variables: Mapping[str, Any]) -> Template:
        """Rename the ids in the text of ``Fn::Sub``. Parameters become variables that have the parameters' values."""
        values = dict(variables)

        def replace(match: re.Match[str]) -> str:
            name, dot, attribute = match[1].partition(".")
            if name in values and not dot:
                return match[0]
            if name in self._values and not dot:
                values[name] = self._values[name]
                return match[0]
            return f"${{{self._outer_id(name)}{dot}{attribute}}}"

        changed = _VARIABLE.sub(replace, text)
        return {"Fn::Sub": [changed, values] if values else changed}


class _Outer:
    """The references of the outer template to nested stacks, and of nested stacks to each other."""

    def __init__(self, inner: Mapping[str, _Inner]) -> None:
        self._inner = inner

    def rewritten(self, value: Any) -> Any:
        """Return a part of a template in which references to outputs of stacks are references to resources."""
        match value:
            case {"Fn::GetAtt": [str(id), str(attribute)]} if id in self._inner:
                return self.rewritten(self._inner[id].output(attribute.removeprefix("Outputs.")))
            case {"Ref": str(id)} if id in self._inner:
                return {"Ref": "AWS::StackId"}
            case dict():
                return {key: self._entry(key, member) for key, member in cast("Template", value).items()}
            case list():
                return [self.rewritten(item) for item in cast("list[Any]", value)]
            case _:
                return value

    def _entry(self, key: str, value: Any) -> Any:
        if key != "DependsOn":
            return self.rewritten(value)
        return [needed for id in _as_list(value) for needed in (self._inner[id].ids if id in self._inner else [id])]


def _as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
