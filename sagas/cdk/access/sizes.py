"""The sizes of policies. IAM refuses a policy that is too long for its holder, but only in a deployment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import jsii
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct, IValidation

_LONGEST = {
    "AWS::AccountId": 12,
    "AWS::Partition": len("aws-us-gov"),
    "AWS::Region": len("ap-southeast-1"),
    "AWS::StackName": 128,
    "AWS::URLSuffix": len("amazonaws.com.cn"),
}
"""The longest values of CloudFormation's pseudo parameters. Those of a stack with a known environment are shorter."""
_API_ID = 10
_STACK_ID_PART = 8
"""The part of a stack's id that distinguishes services in the names of queues."""
_OTHER = 130
"""Of what CloudFormation names, such as most ARNs."""


_INSERTED = re.compile(r"\$\{([^}]+)\}")


@dataclass(frozen=True, slots=True)
class Held:
    """What IAM limits. ``most``: its characters. ``instead``: what has more room."""

    what: str
    most: int
    instead: str


_TO_A_ROLE = "grant to a role that the app creates, whose policies the CDK splits"
USER = Held("the inline policies of this user", 2_048, _TO_A_ROLE)
GROUP = Held("the inline policies of this group", 5_120, _TO_A_ROLE)
MANAGED = Held("this managed policy", 6_144, f"grant to several, or {_TO_A_ROLE[6:]}")
ROLE = Held("the inline policies of this role", 10_240, "put your own statements into a managed policy")


@jsii.implements(IValidation)
class Fitting:
    """Reports, at the end of the synthesis, policies of these holders that are too long. The app may add to the same
    policies at any time, and the CDK splits only those next to a role.

    Args:
        service: in whose stack references are resolved. In another stack, each would be an import of unknown length.
        api_id: the id of the service's API.
    """

    def __init__(self, service: Construct, api_id: str) -> None:
        self._stack = Stack.of(service)
        self._api_id = api_id
        self._holders: dict[str, Construct] = {}
        service.node.add_validation(cast("IValidation", self))

    def watch(self, grantee: Any) -> None:
        """Check the policies of a grantee, if they are part of the app."""
        holder = grantee if isinstance(grantee, iam.Policy | iam.ManagedPolicy) else grantee.grant_principal
        if Construct.is_construct(holder):
            self._holders[holder.node.path] = cast("Construct", holder)

    def validate(self) -> list[str]:
        """Return a message for each holder whose policies are too long."""
        return [fault for holder in self._holders.values() for fault in self._faults(holder)]

    def _faults(self, holder: Construct) -> Iterator[str]:
        for held, size in self.sizes(holder).items():
            if size > held.most:
                fault = f"{holder.node.path}: {held.what} would have {size:,} characters, and IAM allows {held.most:,}"
                yield f"{fault}; {held.instead}, or grant fewer rights or types"

    def sizes(self, holder: Construct) -> dict[Held, int]:
        """Return the sizes of what a holder has, in characters."""
        if isinstance(holder, iam.ManagedPolicy):
            return {MANAGED: self._length(holder.document)}
        found = dict[Held, int]()
        for policy in [holder] if isinstance(holder, iam.Policy) else holder.node.children:
            if isinstance(policy, iam.Policy):
                resource = cast("iam.CfnPolicy", policy.node.default_child)
                for held, names in ((USER, resource.users), (GROUP, resource.groups), (ROLE, resource.roles)):
                    if self._stack.resolve(names):
                        found[held] = found.get(held, 0) + self._length(policy.document)
        if isinstance(holder, iam.Role) and isinstance(role := holder.node.default_child, iam.CfnRole):
            within = cast("list[dict[str, Any]]", self._stack.resolve(role.policies) or [])
            found[ROLE] = found.get(ROLE, 0) + sum(self._length(one["policyDocument"]) for one in within)
        return found

    def _length(self, document: Any) -> int:
        match self._stack.resolve(self._api_id):
            case {"Ref": str(logical_id)}:
                known = {logical_id: _API_ID}
            case _:  # an imported API has a known id
                known = {}
        return length(self._stack.resolve(document), _LONGEST | known)


def length(value: Any, known: Mapping[str, int]) -> int:
    """Return the most characters that a part of a policy can have, once it is deployed. IAM counts no white space.
    ``known``: the lengths of what CloudFormation names, by logical id."""
    match value:
        case {"Ref": _} | {"Fn::GetAtt": _} | {"Fn::Select": _} | {"Fn::Sub": _} | {"Fn::Join": _}:
            return len('""') + _in_text(value, known)
        case dict():
            members = cast("dict[str, Any]", value)
            return len("{}") + sum(len(f'"{name}":,') + length(one, known) for name, one in members.items())
        case list():
            return len("[]") + sum(len(",") + length(one, known) for one in cast("list[Any]", value))
        case _:
            return len(json.dumps(value))


def _in_text(value: Any, known: Mapping[str, int]) -> int:
    """Return the most characters of a value within a text."""
    match value:
        case str():
            return len(value)
        case {"Ref": str(name)}:
            return known.get(name, _OTHER)
        case {"Fn::Select": _}:
            return _STACK_ID_PART
        case {"Fn::Join": [_, parts]}:
            return sum(_in_text(part, known) for part in parts)
        case {"Fn::Sub": [str(text), given]}:
            inserted = (given.get(name, {"Ref": name}) for name in _INSERTED.findall(text))
            return len(_INSERTED.sub("", text)) + sum(_in_text(one, known) for one in inserted)
        case _:
            return _OTHER
