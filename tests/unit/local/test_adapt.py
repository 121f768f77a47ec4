"""What a template is changed to, so that the emulator does as AWS does."""

from __future__ import annotations

from typing import Any

from sagas.local.emulator.adapt import (
    with_batch_actions,
    with_gateway_responses,
    with_local_apis,
    with_named_functions,
    with_secret_arns,
    without_metric_math,
    without_signatures,
)

ENDPOINT = "http://127.0.0.1:4566"


def test_alarms_on_several_metrics_are_left_out() -> None:
    one: dict[str, Any] = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"MetricName": "Errors"}}
    several: dict[str, Any] = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": []}}
    template = {"Resources": {"One": one, "Several": several}}
    assert without_metric_math(template) == {"Resources": {"One": one}}
    assert template["Resources"].keys() == {"One", "Several"}


def test_iam_allows_batches_to_whom_it_allows_single_messages() -> None:
    policy: dict[str, Any] = {
        "Type": "AWS::IAM::Policy",
        "Properties": {
            "PolicyDocument": {
                "Statement": [
                    {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "q"},
                    {"Effect": "Allow", "Action": ["sqs:ReceiveMessage", "sqs:DeleteMessage"], "Resource": "q"},
                ]
            }
        },
    }
    changed = with_batch_actions({"Resources": {"Policy": policy}})["Resources"]["Policy"]["Properties"]
    assert [one["Action"] for one in changed["PolicyDocument"]["Statement"]] == [
        ["sqs:SendMessage", "sqs:SendMessageBatch"],
        ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:DeleteMessageBatch"],
    ]
    assert policy["Properties"]["PolicyDocument"]["Statement"][0]["Action"] == "sqs:SendMessage"


def an_api() -> dict[str, Any]:
    """An API of one document, and its deployment."""
    signed: dict[str, Any] = {"security": [{"sigv4": []}], "responses": {}}
    body: dict[str, Any] = {
        "paths": {"/sagas": {"get": signed}, "/callbacks/{token}": {"post": {**signed, "security": []}}},
        "x-amazon-apigateway-gateway-responses": {
            "DEFAULT_4XX": {"responseTemplates": {"application/json": "{}"}},
            "ACCESS_DENIED": {"statusCode": "403", "responseTemplates": {"application/json": "{}"}},
        },
    }
    deployment = {
        "Type": "AWS::ApiGateway::Deployment",
        "Properties": {"RestApiId": {"Ref": "Api"}},
        "DependsOn": "Role",
    }
    return {"Api": {"Type": "AWS::ApiGateway::RestApi", "Properties": {"Body": body}}, "Deployment": deployment}


def test_unless_iam_is_enforced_no_operation_of_a_document_is_signed() -> None:
    resources = an_api()
    paths = without_signatures({"Resources": resources})["Resources"]["Api"]["Properties"]["Body"]["paths"]
    assert [one["security"] for path in paths.values() for one in path.values()] == [[], []]
    assert resources == an_api()


def test_the_responses_of_a_gateway_are_resources_of_the_emulator() -> None:
    resources = with_gateway_responses({"Resources": an_api()})["Resources"]
    assert "x-amazon-apigateway-gateway-responses" not in resources["Api"]["Properties"]["Body"]
    assert resources["ApiAccessDenied"] == {
        "Type": "AWS::ApiGateway::GatewayResponse",
        "Properties": {
            "RestApiId": {"Ref": "Api"},
            "ResponseType": "ACCESS_DENIED",
            "ResponseTemplates": {"application/json": "{}"},
            "StatusCode": "403",
        },
    }
    assert "StatusCode" not in resources["ApiDefault4Xx"]["Properties"]
    assert resources["Deployment"]["DependsOn"] == ["Role", "ApiDefault4Xx", "ApiAccessDenied"]


def test_an_alarm_on_an_expression_is_left_out() -> None:
    alarms = {"One": {"MetricName": "Errors"}, "Math": {"Metrics": [{"Id": "sum", "Expression": "calls - errors"}]}}
    resources = {name: {"Type": "AWS::CloudWatch::Alarm", "Properties": alarm} for name, alarm in alarms.items()}
    assert list(without_metric_math({"Resources": resources})["Resources"]) == ["One"]
    assert len(resources) == 2


def a_function(**variables: Any) -> dict[str, Any]:
    return {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": variables}}}


def test_variables_lead_to_the_api_here() -> None:
    region, suffix = {"Ref": "AWS::Region"}, {"Ref": "AWS::URLSuffix"}
    here = [f"{ENDPOINT}/_aws/execute-api/", {"Ref": "Api"}, "/", {"Ref": "Stage"}, "/"]
    for host in ([".execute-api.", region, ".", suffix], [".execute-api.eu-central-1.", suffix]):
        url = ["https://", {"Ref": "Api"}, *host, "/", {"Ref": "Stage"}, "/"]
        template = {"Resources": {"F": a_function(SHOP_API={"Fn::Join": ["", url]}, NAME="https://")}}
        changed = with_local_apis(template, ENDPOINT)["Resources"]["F"]
        assert changed == a_function(SHOP_API={"Fn::Join": ["", here]}, NAME="https://")
        assert template["Resources"]["F"]["Properties"]["Environment"]["Variables"]["SHOP_API"]["Fn::Join"][1] == url


def test_what_is_no_api_stays() -> None:
    joins = (
        ["https://", {"Ref": "Api"}, ".execute-api.eu-central-1.amazonaws.com/"],
        ["https://", {"Ref": "Api"}, ".example.", {"Ref": "AWS::URLSuffix"}],
        ["https://example.com/", {"Ref": "Path"}],
    )
    resources = {f"F{i}": a_function(URL={"Fn::Join": ["", parts]}) for i, parts in enumerate(joins)}
    assert with_local_apis({"Resources": resources}, ENDPOINT) == {"Resources": resources}


def test_a_secret_is_named_by_its_arn() -> None:
    secret: dict[str, Any] = {"Type": "AWS::SecretsManager::Secret", "Properties": {}}
    resources = {"Key": secret, "F": a_function(SECRET={"Ref": "Key"}, TABLE={"Ref": "Table"})}
    changed = with_secret_arns({"Resources": resources})["Resources"]
    assert changed == {"Key": secret, "F": a_function(SECRET={"Fn::GetAtt": ["Key", "Id"]}, TABLE={"Ref": "Table"})}


def test_a_function_that_a_stage_names_has_a_name() -> None:
    function = {"Type": "AWS::Lambda::Function", "Properties": {"Handler": "one"}}
    uri = "arn:function:${stageVariables.function}:${stageVariables.alias}/${stageVariables.bucket}"
    api = {"Type": "AWS::ApiGateway::RestApi", "Properties": {"Body": {"paths": {"/": {"get": {"uri": uri}}}}}}
    variables = {"function": {"Ref": "Long" * 20 + "1A2B"}, "alias": "live", "bucket": {"Ref": "Bucket"}}
    resources = {
        "Long" * 20 + "1A2B": function,
        "Other": {"Type": "AWS::Lambda::Function", "Properties": {"Handler": "one"}},
        "Api": api,
        "Bucket": {"Type": "AWS::S3::Bucket"},
        "Stage": {
            "Type": "AWS::ApiGateway::Stage",
            "Properties": {"RestApiId": {"Ref": "Api"}, "Variables": variables},
        },
        "Elsewhere": {
            "Type": "AWS::ApiGateway::Stage",
            "Properties": {"RestApiId": {"Fn::ImportValue": "x"}, "Variables": {"alias": {"Fn::ImportValue": "y"}}},
        },
    }
    changed = with_named_functions({"Resources": resources}, "Shop")["Resources"]
    name = changed["Long" * 20 + "1A2B"]["Properties"]["FunctionName"]
    assert len(name) == 64
    assert name.endswith("Long1A2B")
    named = f"arn:function:{name}:live/${{stageVariables.bucket}}"
    assert changed["Api"]["Properties"]["Body"]["paths"]["/"]["get"]["uri"] == named
    unchanged = ("Other", "Bucket", "Stage", "Elsewhere")
    assert {id: changed[id] for id in unchanged} == {id: resources[id] for id in unchanged}
