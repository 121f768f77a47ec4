"""Tables and an API that are there already."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from aws_cdk import App, Stack, assertions
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from sagas.cdk import Archive, SagaEvents, SagaService, Throttling, shape_gateway_answers
from sagas.cdk.access.api import ROUTES
from sagas.errors import DefinitionError
from tests.cdk.rendered import rights, template_of
from tests.cdk.saga_classes import Delivery, Shipment, Trip

Template = dict[str, Any]
STRING, NUMBER = dynamodb.AttributeType.STRING, dynamodb.AttributeType.NUMBER
INDEXES = {
    "open": ("open_shard", "due"),
    "by_name": ("name_shard", "created_at"),
    "ended": ("ended", "ended_at"),
    "incidents": ("incident_shard", "incident"),
}


def attribute(name: str, kind: dynamodb.AttributeType = STRING) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=kind)


def control(
    stack: Stack, partition: str = "saga_id", ttl: str | None = "expires_at", **changes: tuple[str, str] | None
) -> dynamodb.Table:
    """A control table; ``changes``: other keys of an index, or ``None`` to leave it out."""
    table = dynamodb.Table(stack, "Control", partition_key=attribute(partition), time_to_live_attribute=ttl)
    for name, keys in {**INDEXES, **changes}.items():
        if keys is not None:
            table.add_global_secondary_index(
                index_name=name, partition_key=attribute(keys[0]), sort_key=attribute(keys[1])
            )
    return table


def audit(stack: Stack, kind: dynamodb.AttributeType = NUMBER, ttl: str | None = "expires_at") -> dynamodb.TableV2:
    """An audit table."""
    return dynamodb.TableV2(
        stack,
        "Audit",
        partition_key=attribute("saga_id"),
        sort_key=attribute("seq", kind),
        time_to_live_attribute=ttl,
    )


def resources(stack: Stack, kind: str) -> list[Template]:
    """All resources of a type."""
    found = assertions.Template.from_stack(stack).to_json()["Resources"].values()
    return [one for one in found if one["Type"] == kind]


def allowed(stack: Stack) -> set[tuple[str, str]]:
    """(action, resource) pairs that any role of the stack has."""
    return {pair for own in rights(template_of(stack)).values() for pair in own}


def refused(stack: Stack, **options: Any) -> str:
    """The message of a service that must not be built."""
    given: dict[str, Any] = {"sagas": [Trip], **options}
    with pytest.raises(DefinitionError) as error:
        SagaService(stack, "Shop", **given)
    return str(error.value)


@pytest.fixture
def stack() -> Stack:
    return Stack(App(), "Test")


class TestTables:
    def test_are_used_and_none_is_made(self, stack: Stack) -> None:
        sagas, entries = control(stack), audit(stack)
        service = SagaService(stack, "Shop", sagas=[Trip], tables={"sagas": sagas, "audit": entries})
        assert service.sagas_table is sagas
        assert service.audit_table is entries
        tables = [*resources(stack, "AWS::DynamoDB::Table"), *resources(stack, "AWS::DynamoDB::GlobalTable")]
        assert [one["Metadata"]["sagas"]["part"] for one in tables] == ["sagas_table", "audit_table"]
        for function in resources(stack, "AWS::Lambda::Function"):
            variables = function["Properties"]["Environment"]["Variables"]
            assert variables["SAGAS_TABLE"] == stack.resolve(sagas.table_name)
            assert variables["SAGAS_AUDIT_TABLE"] == stack.resolve(entries.table_name)

    def test_imported_ones_are_granted_with_their_indexes(self, stack: Stack) -> None:
        table = dynamodb.Table.from_table_name(stack, "Control", "my-sagas")
        key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:eu-west-1:123456789012:key/mine")
        arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/my-audit"
        entries = dynamodb.Table.from_table_attributes(stack, "Audit", table_arn=arn, encryption_key=key)
        SagaService(stack, "Shop", sagas=[Trip], tables={"sagas": table, "audit": entries})
        granted = allowed(stack)
        assert not resources(stack, "AWS::DynamoDB::Table")
        queried = {one.rpartition("table/")[2] for action, one in granted if action == "dynamodb:Query"}
        indexes = {f"my-sagas/index/{name}" for name in INDEXES}
        assert queried == indexes | {"my-audit"}
        assert ("kms:Decrypt", "arn:aws:kms:eu-west-1:123456789012:key/mine") in granted
        assert not [one for _, one in granted if "stream" in one]

    def test_restored_ones_are_followed_by_their_streams(self, stack: Stack) -> None:
        streams = {
            name: f"arn:aws:dynamodb:eu-west-1:123456789012:table/{name}-restored/stream/2026-11-22T10:00:00.000"
            for name in ("sagas", "audit")
        }
        sagas, entries = (
            dynamodb.Table.from_table_attributes(
                stack, name.title(), table_name=f"{name}-restored", table_stream_arn=streams[name]
            )
            for name in ("sagas", "audit")
        )
        SagaService(
            stack,
            "Shop",
            sagas=[Trip],
            tables={"sagas": sagas, "audit": entries},
            events=SagaEvents(),
            archive=Archive(),
        )
        mappings = [one["Properties"]["EventSourceArn"] for one in resources(stack, "AWS::Lambda::EventSourceMapping")]
        assert {one for one in mappings if isinstance(one, str)} == set(streams.values())

    @pytest.mark.parametrize(
        ("options", "needs"), [({"events": SagaEvents()}, "sagas"), ({"archive": Archive()}, "audit")]
    )
    def test_restored_ones_without_their_streams(self, stack: Stack, options: Template, needs: str) -> None:
        tables = {name: dynamodb.Table.from_table_name(stack, name, name) for name in ("sagas", "audit")}
        message = refused(stack, tables=tables, **options)
        assert f"tables: {needs}: it has no stream; import it with its table_stream_arn" in message

    def test_one_of_them_alone(self, stack: Stack) -> None:
        SagaService(stack, "Shop", sagas=[Trip], tables={"audit": audit(stack)})
        assert len(resources(stack, "AWS::DynamoDB::Table")) == 1

    def test_another_key(self, stack: Stack) -> None:
        message = refused(stack, tables={"sagas": control(stack, partition="id")})
        assert "tables: sagas: the table must have the partition key saga_id (S) and no sort key" in message
        assert "not the partition key id (S)" in message

    def test_a_missing_index(self, stack: Stack) -> None:
        message = refused(stack, tables={"sagas": control(stack, open=None)})
        assert "lacks the index open with the partition key open_shard (S) and the sort key due (S)" in message

    def test_an_index_that_projects_too_little(self, stack: Stack) -> None:
        table = control(stack, incidents=None)
        table.add_global_secondary_index(
            index_name="incidents",
            partition_key=attribute("incident_shard"),
            sort_key=attribute("incident"),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        assert "the index incidents must project seq, too" in refused(stack, tables={"sagas": table})

    def test_an_index_with_other_keys(self, stack: Stack) -> None:
        message = refused(stack, tables={"sagas": control(stack, by_name=("created_at", "name_shard"))})
        assert "the index by_name must have the partition key name_shard (S)" in message

    def test_a_sort_key_of_another_type(self, stack: Stack) -> None:
        message = refused(stack, tables={"audit": audit(stack, STRING)})
        assert "tables: audit: the table must have the partition key saga_id (S) and the sort key seq (N)" in message

    def test_tombstones_that_would_not_expire(self, stack: Stack) -> None:
        message = refused(stack, tables={"audit": audit(stack, ttl="gone_at")}, retention=timedelta(days=30))
        assert "tables: audit: with a retention the table needs expires_at" in message

    def test_a_control_table_needs_no_time_to_live(self, stack: Stack) -> None:
        """Nothing of its own expires by itself."""
        tables = {"sagas": control(stack, ttl=None)}
        SagaService(stack, "Shop", sagas=[Trip], tables=tables, retention=timedelta(days=30))

    def test_one_table_for_both(self, stack: Stack) -> None:
        table = control(stack)
        assert "must be different tables" in refused(stack, tables={"sagas": table, "audit": table})

    def test_a_table_of_joins(self, stack: Stack) -> None:
        key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:eu-west-1:123456789012:key/mine")
        table = dynamodb.Table.from_table_attributes(stack, "Joins", table_name="joins-restored", encryption_key=key)
        SagaService(stack, "Shop", sagas=[Delivery, Shipment], tables={"joins": table})
        assert len(resources(stack, "AWS::DynamoDB::Table")) == 2
        functions = resources(stack, "AWS::Lambda::Function")
        variables = [one["Properties"]["Environment"]["Variables"] for one in functions]
        assert {one["SAGAS_JOINS_TABLE"] for one in variables if "SAGAS_JOINS_TABLE" in one} == {"joins-restored"}
        assert ("kms:Decrypt", "arn:aws:kms:eu-west-1:123456789012:key/mine") in allowed(stack)
        names = {resource.rsplit("/", 1)[-1] for action, resource in allowed(stack) if action == "dynamodb:UpdateItem"}
        assert "joins-restored" in names

    def test_a_table_of_joins_that_does_not_fit(self, stack: Stack) -> None:
        table = dynamodb.Table(stack, "Joins", partition_key=attribute("join"), sort_key=attribute("position"))
        message = refused(stack, sagas=[Delivery, Shipment], tables={"joins": table})
        assert "tables: joins: the table must have the partition key join (S) and the sort key part (S)" in message

    def test_a_table_of_joins_where_no_saga_has_children(self, stack: Stack) -> None:
        table = dynamodb.Table(stack, "Joins", partition_key=attribute("join"), sort_key=attribute("part"))
        assert "tables: joins: no saga of this service has children" in refused(stack, tables={"joins": table})


def an_api(stack: Stack, **options: Any) -> apigateway.RestApi:
    return apigateway.RestApi(stack, "Mine", **options)


class TestApi:
    def test_routes_go_below_the_resource(self, stack: Stack) -> None:
        api = an_api(stack)
        service = SagaService(stack, "Shop", sagas=[Trip], mount=api.root.add_resource("orders"), dashboard=True)
        assert service.api is api
        assert len(resources(stack, "AWS::ApiGateway::RestApi")) == 1
        methods = resources(stack, "AWS::ApiGateway::Method")
        assert len(methods) == sum(len(methods) for methods in ROUTES.values())
        assert {one["Properties"]["AuthorizationType"] for one in methods} == {"AWS_IAM"}
        (made,) = resources(stack, "AWS::ApiGateway::RestApi")
        assert made["Metadata"]["sagas"] == {"part": "api", "path": "/orders"}
        mounts = [one["Properties"]["Environment"]["Variables"] for one in resources(stack, "AWS::Lambda::Function")]
        assert [one["SAGAS_MOUNT"] for one in mounts if "SAGAS_MOUNT" in one] == ["/orders"]
        assert "/orders/sagas/{type}" in json.dumps(resources(stack, "AWS::CloudWatch::Dashboard"))

    @pytest.mark.parametrize("authorized", [False, True])
    def test_methods_that_the_next_deployment_would_delete_are_refused(self, authorized: bool) -> None:
        app = App()
        stack, more = Stack(app, "Existing"), dict[str, Any]()
        if authorized:
            pool: Any = cognito.UserPool(stack, "Pool")
            more["authorizer"] = apigateway.CognitoUserPoolsAuthorizer(stack, "Users", cognito_user_pools=[pool])
        service = SagaService(stack, "Shop", sagas=[Trip], **more)
        root: Any = service.api.root
        root.add_resource("mine").add_method("GET")
        if authorized:  # its methods are resources, too
            app.synth()
            return
        lost = r"Existing-Shop: Existing/Shop/Api/Api/Default/mine/Resource would be lost: .* as mount="
        with pytest.raises(RuntimeError, match=lost):
            app.synth()

    def test_at_the_root(self, stack: Stack) -> None:
        SagaService(stack, "Shop", sagas=[Trip], mount=an_api(stack).root)
        assert "SAGAS_MOUNT" not in json.dumps(resources(stack, "AWS::Lambda::Function"))

    def test_its_own_answers_stay_as_they_are_unless_asked_for(self, stack: Stack) -> None:
        api = an_api(stack)
        SagaService(stack, "Shop", sagas=[Trip], mount=api.root)
        assert not resources(stack, "AWS::ApiGateway::GatewayResponse")

    def test_its_own_answers_in_our_shape(self, stack: Stack) -> None:
        api = an_api(stack)
        shape_gateway_answers(api)
        SagaService(stack, "Shop", sagas=[Trip], mount=api.root)
        kinds = {one["Properties"]["ResponseType"] for one in resources(stack, "AWS::ApiGateway::GatewayResponse")}
        assert {"DEFAULT_4XX", "THROTTLED"} <= kinds

    def test_its_authorizer_holds(self, stack: Stack) -> None:
        code, runtime = lambda_.Code.from_inline("def handler(*_): ..."), lambda_.Runtime.PYTHON_3_13
        handler: Any = lambda_.Function(stack, "Who", code=code, handler="index.handler", runtime=runtime)
        token = apigateway.IdentitySource.query_string("token")
        authorizer: Any = apigateway.RequestAuthorizer(stack, "Authorizer", handler=handler, identity_sources=[token])
        api = an_api(stack, default_method_options=apigateway.MethodOptions(authorizer=authorizer))
        SagaService(stack, "Shop", sagas=[Trip], mount=api.root)
        methods = resources(stack, "AWS::ApiGateway::Method")
        assert {one["Properties"]["AuthorizationType"] for one in methods} == {"CUSTOM"}
        said = [str(one["Properties"].get("Environment")) for one in resources(stack, "AWS::Lambda::Function")]
        assert len([one for one in said if "'SAGAS_AUTHORIZER': 'custom query token'" in one]) == 1

    def test_an_imported_one(self, stack: Stack) -> None:
        api = apigateway.RestApi.from_rest_api_attributes(stack, "Mine", rest_api_id="a", root_resource_id="b")
        assert "not of an imported one" in refused(stack, mount=api.root)

    def test_that_of_another_stack(self, stack: Stack) -> None:
        other = an_api(Stack(App(), "Other"))
        assert "in the service's own stack" in refused(stack, mount=other.root)

    def test_a_path_with_parameters(self, stack: Stack) -> None:
        resource = an_api(stack).root.add_resource("{tenant}")
        assert "a path without parameters, not /{tenant}" in refused(stack, mount=resource)

    def test_throttling_is_its_stages(self, stack: Stack) -> None:
        assert "set it on your API's stage" in refused(stack, mount=an_api(stack).root, throttling=Throttling())
