"""Roles of the library's own: what the library allows is part of the role, so it needs no resource of its own."""

from __future__ import annotations

from typing import cast

from aws_cdk import aws_iam as iam
from constructs import Construct


class OwnRole(iam.Role):
    """A role whose statements are inside it. What an app grants becomes a policy next to the role.

    Args:
        scope: parent construct.
        id: construct id.
        principal: what assumes the role.
        large: whether the role may need more than the 10,240 characters that its own policies have together. Then all
            statements are next to it, because the CDK splits only such policies.
    """

    def __init__(self, scope: Construct, id: str, *, principal: iam.ServicePrincipal, large: bool = False) -> None:
        self._own = None if large else iam.PolicyDocument()
        own = None if self._own is None else {"Own": self._own}
        super().__init__(scope, id, assumed_by=cast("iam.IPrincipal", principal), inline_policies=own)

    def allow(self, statement: iam.PolicyStatement) -> None:
        """Add a statement of the library's own."""
        if self._own is None:
            self.add_to_policy(statement)
        else:
            self._own.add_statements(statement)
