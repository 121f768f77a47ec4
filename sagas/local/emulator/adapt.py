"""Adapts templates to the emulator. The templates for AWS do not change."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from sagas.imports import PROVIDED, modules_below, modules_needed
from sagas.local.deploy.assembly import Asset, Stack
from sagas.local.emulator.shipped import VARIABLE
from sagas.topology import Topology

_ALARM = "AWS::CloudWatch::Alarm"
_LONGEST_NAME = 64
"""Maximum characters of a function's name."""
_LAYER = "AWS::Lambda::LayerVersion"
_RESOURCE_POLICIES = ("AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy")
_NOT_BY_TLS = {"Bool": {"aws:SecureTransport": "false"}}
_BATCHED = ("sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
_API_HANDLER = "sagas.handlers.api.handler"


def as_deployable(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template without the parameter for the CDK's bootstrap version, which does not exist locally."""
    changed = copy.deepcopy(template)
    changed.pop("Rules", None)
    changed.get("Parameters", {}).pop("BootstrapVersion", None)
    if not changed.get("Parameters"):
        changed.pop("Parameters", None)
    return changed


def without_layers(template: dict[str, Any], assets: Sequence[Asset] = ()) -> dict[str, Any]:
    """Return the template without layers. The emulator runs functions in its own interpreter, which already has the
    packages of the layers, built for this machine. A variable names the modules of a layer in ``assets``: the function
    sees no others."""
    changed = copy.deepcopy(template)
    resources: dict[str, Any] = changed["Resources"]
    names = [name for name, resource in resources.items() if resource["Type"] == _LAYER]
    layers = {name: resources.pop(name) for name in names}
    contents = {asset.key: asset.path for asset in assets}
    visible: dict[str, str] = {}
    for name, layer in layers.items():
        content = contents.get(str(layer["Properties"]["Content"].get("S3Key")))
        if content is not None:
            provided: list[str] = layer.get("Metadata", {}).get(PROVIDED, [])
            visible[name] = ",".join(sorted({*_visible_in(content / "python"), *provided}))
    for resource in resources.values():
        if resource["Type"] == "AWS::Lambda::Function":
            used: list[Any] = resource["Properties"].pop("Layers", [])
            modules = [names for name, names in visible.items() if {"Ref": name} in used]
            if modules:
                variables = resource["Properties"].setdefault("Environment", {}).setdefault("Variables", {})
                variables[VARIABLE] = ",".join(modules)
    return changed


def _visible_in(content: Path) -> set[str]:
    """Return the modules that functions with a layer may import here: its top-level modules, its parts of this library,
    and what its packages need on this platform."""
    modules = modules_below(content)
    own = {name for name in modules if name.count(".") == name.startswith("sagas.")}
    return own | modules_needed(path.name.partition("-")[0] for path in content.glob("*.dist-info"))


def without_metric_math(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template without alarms on several metrics, which some emulators refuse."""
    resources: dict[str, Any] = template["Resources"]
    kept = {
        name: each for name, each in resources.items() if each["Type"] != _ALARM or "Metrics" not in each["Properties"]
    }
    return {**template, "Resources": kept}


def without_gradual_deployment(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template without CodeDeploy, which the emulator lacks: aliases move at once."""
    changed = copy.deepcopy(template)
    resources: dict[str, Any] = changed["Resources"]
    for name in [name for name, resource in resources.items() if resource["Type"].startswith("AWS::CodeDeploy::")]:
        del resources[name]
    for resource in resources.values():
        resource.get("UpdatePolicy", {}).pop("CodeDeployLambdaAliasUpdate", None)
    return changed


def without_signatures(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template with an API that accepts unsigned requests. Unless IAM is enforced, the emulator requires a
    signature, but does not check it. That would only exclude ``curl``."""
    changed = copy.deepcopy(template)
    for resource in changed["Resources"].values():
        if resource["Type"] == "AWS::ApiGateway::Method" and resource["Properties"]["AuthorizationType"] == "AWS_IAM":
            resource["Properties"]["AuthorizationType"] = "NONE"
        for path in _document_of(resource).get("paths", {}).values():
            for operation in path.values():
                operation["security"] = []
    return changed


def with_named_functions(template: dict[str, Any], stack: str) -> dict[str, Any]:
    """Return the template with functions that have names where a stage's variables name them. The names replace the
    variables in the document of the stage's API, because some emulators do not know such variables. ``stack``: the
    stack's name, with which the names begin."""
    changed = copy.deepcopy(template)
    resources: dict[str, Any] = changed["Resources"]
    for stage in [each["Properties"] for each in resources.values() if each["Type"] == "AWS::ApiGateway::Stage"]:
        api = _named(resources, stage["RestApiId"])
        text = json.dumps(api["Properties"].get("Body"))
        for variable, value in stage.get("Variables", {}).items():
            function = _named(resources, value)
            if function["Type"] == "AWS::Lambda::Function":
                # The end of a logical id makes it unique.
                name = function["Properties"]["FunctionName"] = f"{stack}-{value['Ref']}"[-_LONGEST_NAME:]
                text = text.replace(f"${{stageVariables.{variable}}}", name)
            elif isinstance(value, str):
                text = text.replace(f"${{stageVariables.{variable}}}", value)
        if "Body" in api["Properties"]:
            api["Properties"]["Body"] = json.loads(text)
    return changed


def _named(resources: dict[str, Any], reference: dict[str, Any] | str) -> dict[str, Any]:
    """Return the resource that a reference names, or one without a type if that is not in the template."""
    named: dict[str, Any] = {"Type": "", "Properties": {}}
    return named if isinstance(reference, str) else resources.get(reference.get("Ref", ""), named)


def with_gateway_responses(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template with the gateway responses of an API's document as resources: the emulator ignores them in
    the document. A deployment has those that exist when it is created."""
    changed = copy.deepcopy(template)
    resources: dict[str, Any] = changed["Resources"]
    for name, resource in [*resources.items()]:
        shaped: dict[str, Any] = _document_of(resource).pop("x-amazon-apigateway-gateway-responses", {})
        added = dict[str, Any]()
        for kind, response in shaped.items():
            properties = {
                "RestApiId": {"Ref": name},
                "ResponseType": kind,
                "ResponseTemplates": response["responseTemplates"],
                **({"StatusCode": response["statusCode"]} if "statusCode" in response else {}),
            }
            id = f"{name}{kind.title().replace('_', '')}"
            added[id] = {"Type": "AWS::ApiGateway::GatewayResponse", "Properties": properties}
        for other in resources.values():
            if other["Type"] == "AWS::ApiGateway::Deployment" and other["Properties"]["RestApiId"] == {"Ref": name}:
                earlier: str | list[str] = other.get("DependsOn", [])
                other["DependsOn"] = [*([earlier] if isinstance(earlier, str) else earlier), *added]
        resources |= added
    return changed


def _document_of(resource: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI document of a REST API; empty for other resources."""
    is_api = resource["Type"] == "AWS::ApiGateway::RestApi"
    return resource["Properties"].get("Body", {}) if is_api else {}


def without_transport_rule(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template without statements that deny requests without TLS: the emulator has no TLS."""
    changed = copy.deepcopy(template)
    for resource in changed["Resources"].values():
        policy = resource.get("Properties", {}).get("PolicyDocument")
        if resource["Type"] in _RESOURCE_POLICIES and isinstance(policy, dict):
            rules = cast("dict[str, Any]", policy)
            rules["Statement"] = [rule for rule in rules["Statement"] if rule.get("Condition") != _NOT_BY_TLS]
    return changed


def with_batch_actions(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template with policies that also allow batch actions. On AWS, the permission for one message includes
    batches. The emulator needs a separate permission."""
    changed = copy.deepcopy(template)
    for resource in changed["Resources"].values():
        properties: dict[str, Any] = resource.get("Properties", {})
        policies: list[dict[str, Any]] = []
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            policies = [properties]
        elif resource["Type"] == "AWS::IAM::Role":
            policies = properties.get("Policies", [])
        for statement in (statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]):
            action: str | list[str] = statement.get("Action", [])
            actions = [action] if isinstance(action, str) else action
            statement["Action"] = [*actions, *(f"{name}Batch" for name in actions if name in _BATCHED)]
    return changed


def with_local_paths(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template with the path of the API in the emulator, for the links in its responses."""
    changed = copy.deepcopy(template)
    for resource in changed["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function" and resource["Properties"].get("Handler") == _API_HANDLER:
            variables = resource["Properties"].setdefault("Environment", {}).setdefault("Variables", {})
            variables["SAGAS_BASE_PATH"] = "/_aws/execute-api/{apiId}/{stage}" + variables.get("SAGAS_MOUNT", "")
    return changed


def with_secret_arns(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template with secrets named by ARN. On AWS a ``Ref`` to a secret is the ARN. In the emulator it is the
    name."""
    secrets = {
        name for name, resource in template["Resources"].items() if resource["Type"] == "AWS::SecretsManager::Secret"
    }

    def change(node: dict[str, Any]) -> dict[str, Any] | None:
        return {"Fn::GetAtt": [node["Ref"], "Id"]} if node.get("Ref") in secrets else None

    return _changed(template, change)


def with_local_apis(template: dict[str, Any], endpoint_url: str) -> dict[str, Any]:
    """Return the template after changing API URLs in the variables of functions: they point to this endpoint, not to
    AWS."""
    suffix = {"Ref": "AWS::URLSuffix"}

    def change(node: dict[str, Any]) -> dict[str, Any] | None:
        match node:
            case {"Fn::Join": ["", ["https://", api, str(host), *rest]]} if ".execute-api." in host and suffix in rest:
                path = rest[rest.index(suffix) + 1 :]
                return {"Fn::Join": ["", [f"{endpoint_url}/_aws/execute-api/", api, *path]]}
            case _:
                return None

    changed = copy.deepcopy(template)
    for resource in changed["Resources"].values():
        environment = resource.get("Properties", {}).get("Environment", {})
        if resource["Type"] == "AWS::Lambda::Function" and "Variables" in environment:
            environment["Variables"] = _changed(environment["Variables"], change)
    return changed


def with_local_callbacks(template: dict[str, Any], endpoint_url: str) -> dict[str, Any]:
    """Return the template with callback URLs that point to this endpoint instead of AWS."""
    changed = copy.deepcopy(template)
    resources: dict[str, Any] = changed["Resources"]
    topology = Topology()
    topology.add_stack(resources, {name: name for name in resources})
    api = topology.api
    if api is not None:
        stage = ["", [f"{endpoint_url}/_aws/execute-api/", {"Ref": api.id}, f"/{api.stage}{api.path}"]]
        for resource in resources.values():
            variables = resource.get("Properties", {}).get("Environment", {}).get("Variables", {})
            if resource["Type"] == "AWS::Lambda::Function" and "SAGAS_CALLBACK_URL" in variables:
                variables["SAGAS_CALLBACK_URL"] = {"Fn::Join": stage}
    return changed


def needed_assets(stack: Stack, template: dict[str, Any]) -> Iterator[Asset]:
    """Yield the assets that the adapted template still refers to."""
    text = str(template)
    return (asset for asset in stack.assets if asset.key in text)


def ttl_attributes(template: dict[str, Any]) -> dict[str, str]:
    """Return the TTL attribute of each table, by logical id. The emulator ignores this attribute in templates."""
    return {
        name: resource["Properties"]["TimeToLiveSpecification"]["AttributeName"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::DynamoDB::Table" and "TimeToLiveSpecification" in resource["Properties"]
    }


def _changed(node: Any, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Any:
    """Return a copy in which ``change`` has replaced objects. If it returns None for an object, the same applies to the
    object's members."""
    if isinstance(node, list):
        return [_changed(item, change) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    members = cast("dict[str, Any]", node)
    replacement = change(members)
    return {key: _changed(value, change) for key, value in members.items()} if replacement is None else replacement
