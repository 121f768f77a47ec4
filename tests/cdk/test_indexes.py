"""The indexes of the control table."""

from __future__ import annotations

from tests.cdk.rendered import Template, of_type


def test_the_control_table_has_four(plain: Template) -> None:
    tables = of_type(plain, "AWS::DynamoDB::Table")
    found = {one["IndexName"] for table in tables for one in table.get("GlobalSecondaryIndexes", ())}
    assert found == {"open", "by_name", "incidents", "ended"}
