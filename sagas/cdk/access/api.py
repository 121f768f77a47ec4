"""The HTTP API: a REST API with IAM authorization, and one function for all methods."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, cast

import jsii
from aws_cdk import RemovalPolicy, Validations
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_wafv2 as wafv2
from constructs import Construct, IValidation

from sagas.cdk.access.document import ALIAS, FUNCTION, api_document
from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.compute.permissions import allow_all_sagas, allow_sending, allow_working
from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.tags import tag_part
from sagas.cdk.options.existing import AnyResource, mounted_api
from sagas.cdk.options.function_options import FunctionOptions
from sagas.cdk.options.service_options import AnyAuthorizer, PrivateEndpoint, ServiceOptions, Throttling
from sagas.cdk.parts.alarms import FEW_MINUTES, Alarms
from sagas.cdk.parts.part import Part
from sagas.operations import OPERATIONS


def routes() -> dict[str, tuple[str, ...]]:
    """Return the methods of each resource."""
    methods = dict[str, list[str]]()
    for operation in OPERATIONS:
        methods.setdefault(operation.resource.removeprefix("/"), []).append(operation.method)
    return {path: tuple(of_path) for path, of_path in methods.items()}


ROUTES: Mapping[str, tuple[str, ...]] = routes()
"""The methods that IAM or an authorizer protects, by resource."""

PUBLIC_ROUTES: Mapping[str, tuple[str, ...]] = {"callbacks/{token}": ("POST",)}
"""The methods that require a signed token, not a right, by resource. They exist only if a wait is public."""

_TIMEOUT = 29
"""Seconds the gateway waits for the function."""
_USUAL = FunctionOptions(memory_size=512)

_GATEWAY_MESSAGE = "$context.error.messageString"
_NO_ENTRY = "the request is not signed, or the API has no such path and method"
"""The gateway has one response for both mistakes. Its default message names only the first."""

_RESPONSES: Mapping[str, tuple[str, str, str]] = {
    "DEFAULT_4XX": ("", "bad_request", _GATEWAY_MESSAGE),
    "DEFAULT_5XX": ("", "internal", _GATEWAY_MESSAGE),
    "ACCESS_DENIED": ("403", "forbidden", _GATEWAY_MESSAGE),
    "MISSING_AUTHENTICATION_TOKEN": ("403", "forbidden", json.dumps(_NO_ENTRY)),
    "REQUEST_TOO_LARGE": ("413", "too_large", _GATEWAY_MESSAGE),
    "THROTTLED": ("429", "throttled", _GATEWAY_MESSAGE),
    "INTEGRATION_TIMEOUT": ("504", "timeout", _GATEWAY_MESSAGE),
}
"""The gateway's own responses: the status (empty: unchanged), our error code, and the message as a JSON string."""

_PUSH_LOGS = "arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"
_FINDINGS = {
    "AwsSolutions-APIG2": "The function checks every request against the saga's request type and reports each mistake.",
    "AwsSolutions-APIG3": "A web ACL is the account's choice; calls are authorized, or carry a signed token.",
    "AwsSolutions-APIG4": "Every method is authorized, by IAM unless the user of the construct passes an authorizer.",
    "AwsSolutions-COG4": "Callers are IAM principals, or the authorizer passed in authorizes them.",
    f"AwsSolutions-IAM4[Policy::{_PUSH_LOGS}]": "API Gateway's one role for the account needs this policy.",
}


_UNLOGGED = "Logs need a role of the whole account, which a service does not set unless access_log= asks for it."
_FINDINGS_WITHOUT_EXECUTION_LOG = {
    "AwsSolutions-APIG6": "The access log has every call, and the function's log every error, unless AccessLogs asks.",
}
_FINDINGS_WITHOUT_LOG = {"AwsSolutions-APIG1": _UNLOGGED, "Serverless-APIGWAccessLogging": _UNLOGGED}
_FINDINGS_UNTRACED = {"Serverless-APIGWXrayEnabled": "The user of the construct switched traces off."}
_FINDINGS_OF_METHODS = ("AwsSolutions-APIG4", "AwsSolutions-COG4")
_TLS = "SecurityPolicy_TLS13_1_2_PFS_PQ_2025_09"
_TLS_AT_THE_EDGE = "SecurityPolicy_TLS12_PFS_2025_EDGE"
"""TLS 1.2 and 1.3 with forward secrecy. Without a policy, API Gateway accepts TLS 1.0."""
_OPEN = "The function requires a token that the service signed for one step."


class ApiFunction(SagaFunction):
    """The function behind the API."""

    def __init__(self, scope: Construct, id: str, *, shared: SharedAssets, environment: Mapping[str, str]) -> None:
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.api.handler",
            timeout=_TIMEOUT,
            environment=environment,
            function=shared.options.own_function("api", _USUAL),
            description="Starts, shows and cancels sagas",
            sends_to=shared.queues.values(),
        )
        allow_all_sagas(self.role, shared.tables)
        allow_sending(self.role, shared.queues.values(), counting=True)
        if shared.now is not None:
            allow_working(self.role, shared.now, counting=False)


@dataclass(frozen=True, slots=True)
class Mount:
    """A place in an existing API: the service's resources are added to ``resource``."""

    api: apigateway.RestApi
    resource: AnyResource

    @classmethod
    def of(cls, options: ServiceOptions, service: Construct) -> Mount | None:
        """Return the place that a service's options name; ``None`` if the service has its own API."""
        if options.mount is None:
            return None
        return cls(mounted_api(options.service, service, options.mount), options.mount)

    @property
    def path(self) -> str:
        """The path of the resource, without a trailing slash."""
        return self.resource.path.rstrip("/")

    @property
    def authorizer(self) -> AnyAuthorizer | None:
        """The resource's authorizer, which authorizes the service's methods unless it has its own."""
        defaults = self.resource.default_method_options
        return defaults and cast("AnyAuthorizer | None", defaults.authorizer)


def api_environment(options: ServiceOptions, mount: Mount | None) -> dict[str, str]:
    """Return the variables that give the API's function the prefix of its paths, and the authorizer that the OpenAPI
    document describes: its type, and the place and name of the credential that it reads."""
    authorizer = options.authorizer or (mount and mount.authorizer)
    environment = {"SAGAS_MOUNT": mount.path} if mount is not None and mount.path else {}
    if authorizer is not None:
        child = getattr(getattr(authorizer, "node", None), "default_child", None)
        source: Any = getattr(child, "identity_source", None)
        named = re.match(r"method\.request\.(header|querystring)\.([\w.-]+)", source if isinstance(source, str) else "")
        place, name = named.groups() if named else ("header", "Authorization")
        kind = (authorizer.authorization_type or apigateway.AuthorizationType.CUSTOM).value.lower()
        environment["SAGAS_AUTHORIZER"] = f"{kind} {place.replace('querystring', 'query')} {name}"
    return environment


class SagaApi(Construct, Part):
    """The REST API in front of :class:`ApiFunction`, in its own API or at the ``mount``. ``callbacks``: whether any
    wait of the service is public."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        function: ApiFunction,
        options: ServiceOptions,
        mount: Mount | None = None,
        callbacks: bool = False,
    ) -> None:
        super().__init__(scope, id)
        self._function = function
        self.rest_api: apigateway.RestApiBase
        if mount is not None:
            self.rest_api = mount.api
            tag_part(mount.api, "api", **({"path": mount.path} if mount.path else {}))
            # The service's own authorizer comes first, then the resource's, then IAM.
            authorization = _authorization(options.authorizer or mount.authorizer)
            methods = _add_methods(mount.resource, function, authorization, callbacks=callbacks)
            for added in methods:
                acknowledge(Validations.of(added), {id: _FINDINGS[id] for id in _FINDINGS_OF_METHODS})
            return
        if options.routes_in_document:
            self.rest_api = _api_of_document(self, options, function, callbacks=callbacks)
        else:
            self.rest_api = _api_of_methods(self, options, function, callbacks=callbacks)
        tag_part(self.rest_api, "api")
        if options.web_acl_arn is not None:
            wafv2.CfnWebACLAssociation(
                self,
                "WebAcl",
                resource_arn=self.rest_api.deployment_stage.stage_arn,
                web_acl_arn=options.web_acl_arn,
            )
        for applies, findings in (
            (True, _FINDINGS),
            (options.access_logs.api == "off", _FINDINGS_WITHOUT_LOG),
            (not options.access_logs.execution, _FINDINGS_WITHOUT_EXECUTION_LOG),
            (not options.tracing, _FINDINGS_UNTRACED),
        ):
            if applies:
                acknowledge(Validations.of(self), findings)

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """Count the access log, its role and the account's setting for it, and the association with a web ACL. Unless
        the routes are one document, also count the methods, the parts of their paths, and the gateway's responses."""
        options = catalogue.service_options
        log = 0 if options.access_logs.api == "off" else 3
        acl = 0 if options.web_acl_arn is None else 1
        if options.routes_in_document:
            return log + acl
        parts = {part for path in ROUTES for part in accumulate(path.split("/"), "{}/{}".format)}
        return sum(map(len, ROUTES.values())) + len(parts) + len(_RESPONSES) + log + acl

    def watch(self, alarms: Alarms) -> None:
        """Watch the function's errors and the API's 5xx responses: Lambda does not count a 5xx as an error."""
        what = "The API's function"
        function = self._function
        errors = alarms.watch_errors("ApiErrors", function.function, what)
        failed = self.rest_api.metric_server_error(period=FEW_MINUTES, statistic="Sum")
        failing = alarms.watch(
            "ApiServerErrors", failed, "The API returns 5xx.", "api-errors", periods=3, breaching=2, clears=True
        )
        alarms.watch_throttles("ApiThrottles", function.function, what)
        alarms.guard(function, function.alias, *errors, failing)


def shape_gateway_answers(api: apigateway.RestApi) -> None:
    """Give an API's own error responses, such as 403 and 429, the shape of the service's error responses.

    Args:
        api: an API without such responses. The API that a service creates already has them.
    """
    for kind, (status, template) in _gateway_answers().items():
        api.add_gateway_response(
            kind,
            type=apigateway.ResponseType.of(kind),
            status_code=status or None,
            templates={"application/json": template},
        )


def _gateway_answers() -> dict[str, tuple[str, str]]:
    """Return the status (empty: unchanged) and the template of each of the gateway's own responses."""
    return {
        # The gateway inserts its message with quotes, so the template becomes JSON only then.
        kind: (status, f'{{"error": {{"code": "{code}", "message": {message}, "details": null}}}}')
        for kind, (status, code, message) in _RESPONSES.items()
    }


@jsii.implements(IValidation)
class _OneDocument:
    """Refuses methods, paths and responses that are added to an API whose routes are one document: the next import of
    the document would delete them."""

    def __init__(self, service: str, api: apigateway.SpecRestApi) -> None:
        self._service = service
        self._api = api

    def validate(self) -> list[str]:
        kinds = (apigateway.CfnMethod, apigateway.CfnResource, apigateway.CfnGatewayResponse)
        added = [node.node.path for node in self._api.node.find_all() if isinstance(node, kinds)]
        advice = "create a RestApi of your own, add both to it, and pass a resource of it as mount="
        return [f"{self._service}: {path} would be lost: the API's routes are one document; {advice}" for path in added]


def _api_of_document(
    scope: Construct, options: ServiceOptions, function: SagaFunction, *, callbacks: bool
) -> apigateway.SpecRestApi:
    """Create an API whose routes and responses are one document. IAM authorizes its callers."""
    public = dict(PUBLIC_ROUTES) if callbacks else dict[str, tuple[str, ...]]()
    document = api_document(options.service, ROUTES, public, _gateway_answers())
    api = apigateway.SpecRestApi(
        scope,
        "Api",
        api_definition=apigateway.ApiDefinition.from_inline(document),
        **_api_options(scope, options, callbacks=callbacks),
    )
    api.node.add_validation(cast("IValidation", _OneDocument(options.service, api)))
    # One permission for the whole API instead of one per method.
    function.alias.add_permission(
        "Api",
        principal=cast("iam.IPrincipal", iam.ServicePrincipal("apigateway.amazonaws.com")),
        source_arn=api.arn_for_execute_api(),
    )
    stage = cast("apigateway.CfnStage", api.deployment_stage.node.default_child)
    stage.variables = {FUNCTION: function.function.function_name, ALIAS: options.alias}
    _secure(api, options)
    return api


def _api_of_methods(
    scope: Construct, options: ServiceOptions, function: SagaFunction, *, callbacks: bool
) -> apigateway.RestApi:
    """Create an API whose methods are resources, because a document cannot name an authorizer of the app."""
    authorization = _authorization(options.authorizer)
    more = _api_options(scope, options, callbacks=callbacks)
    api = apigateway.RestApi(scope, "Api", default_method_options=authorization, **more)
    _secure(api, options)
    _add_methods(api.root, function, authorization, callbacks=callbacks)
    shape_gateway_answers(api)
    return api


def _add_methods(
    root: AnyResource, function: SagaFunction, authorization: apigateway.MethodOptions, *, callbacks: bool
) -> list[apigateway.Method]:
    """Add a method for each operation below ``root``. Returns those that are authorized; public ones are not."""
    # One permission for the whole API instead of one per method: a stack allows 500 resources.
    integration = apigateway.LambdaIntegration(
        cast("lambda_.IFunction", function.alias), scope_permission_to_method=False
    )
    free = apigateway.MethodOptions(authorization_type=apigateway.AuthorizationType.NONE)
    authorized = list[apigateway.Method]()
    for route, methods in (*ROUTES.items(), *(PUBLIC_ROUTES.items() if callbacks else ())):
        public = route in PUBLIC_ROUTES
        resource = root.resource_for_path(route)
        access = free if public else authorization
        for method in methods:
            added = resource.add_method(
                method, integration, authorization_type=access.authorization_type, authorizer=access.authorizer
            )
            if public:
                acknowledge(Validations.of(added), dict.fromkeys(_FINDINGS_OF_METHODS, _OPEN))
            else:
                authorized.append(added)
    return authorized


def _api_options(scope: Construct, options: ServiceOptions, *, callbacks: bool) -> dict[str, Any]:
    """Return the options that both forms of an API of the service's own share."""
    throttling = options.throttling or Throttling()
    logged = None
    form = None
    # Public routes have their own limit, so they cannot use up the limit of the other routes.
    bound = options.callback_throttling or Throttling(rate=50, burst=100)
    apart = apigateway.MethodDeploymentOptions(
        metrics_enabled=True, throttling_rate_limit=bound.rate, throttling_burst_limit=bound.burst
    )
    public = [f"/{route}/{method}" for route, methods in PUBLIC_ROUTES.items() for method in methods]
    if options.access_logs.api != "off":
        group = logs.LogGroup(
            scope,
            "AccessLog",
            retention=options.log_retention,
            removal_policy=options.removal_policy,
            encryption_key=cast("kms.IKey | None", options.encryption_key),
        )
        logged = cast("apigateway.IAccessLogDestination", apigateway.LogGroupLogDestination(group))
        form = apigateway.AccessLogFormat.json_with_standard_fields(
            caller=True,
            http_method=True,
            ip=True,
            protocol=True,
            request_time=True,
            resource_path=True,
            response_length=True,
            status=True,
            user=True,
        )
    endpoint = options.endpoint if isinstance(options.endpoint, PrivateEndpoint) else None
    kind = "private" if isinstance(options.endpoint, PrivateEndpoint) else options.endpoint
    return dict[str, Any](
        # The API's name is a dimension of its metrics, so no other API of the account may have the same name.
        rest_api_name=options.service,
        endpoint_configuration=apigateway.EndpointConfiguration(
            types=[apigateway.EndpointType[kind.upper()]],
            vpc_endpoints=endpoint and [cast("ec2.IVpcEndpoint", each) for each in endpoint.vpc_endpoints],
        ),
        policy=endpoint and _private_policy(options, endpoint, callbacks=callbacks),
        # API Gateway uses one role for the logs of the whole account, so the role must outlive this stack.
        cloud_watch_role=options.access_logs.api == "role",
        cloud_watch_role_removal_policy=RemovalPolicy.RETAIN if options.access_logs.api == "role" else None,
        deploy_options=apigateway.StageOptions(
            stage_name="v1",
            tracing_enabled=options.tracing,
            metrics_enabled=True,
            throttling_rate_limit=throttling.rate,
            throttling_burst_limit=throttling.burst,
            access_log_destination=logged,
            access_log_format=form,
            # Without the trace of data, the execution log has no bodies.
            logging_level=apigateway.MethodLoggingLevel.ERROR if options.access_logs.execution else None,
            method_options=dict.fromkeys(public, apart) if callbacks else None,
        ),
    )


def _secure(api: apigateway.RestApiBase, options: ServiceOptions) -> None:
    """Refuse old versions of TLS."""
    resource = cast("apigateway.CfnRestApi", api.node.default_child)
    resource.security_policy = _TLS_AT_THE_EDGE if options.endpoint == "edge" else _TLS
    # STRICT would refuse calls to a private API that use the host name of its VPC endpoint.
    resource.endpoint_access_mode = "BASIC"


def _private_policy(options: ServiceOptions, endpoint: PrivateEndpoint, *, callbacks: bool) -> iam.PolicyDocument:
    """Refuse calls that do not come through the endpoints. IAM or the authorizer decides about all other calls."""
    anyone = cast("iam.IPrincipal", iam.AnyPrincipal())
    # With the account as principal, its IAM policies decide. With an authorizer, callers are not in IAM.
    callers = cast("iam.IPrincipal", iam.AccountRootPrincipal()) if options.authorizer is None else anyone
    actions = ["execute-api:Invoke"]
    resources = ["execute-api:/*"]
    routes = PUBLIC_ROUTES.items() if callbacks else ()
    public = [f"execute-api:/*/{method}/{route.replace('{token}', '*')}" for route, of in routes for method in of]
    elsewhere = {"StringNotEquals": {"aws:SourceVpce": [each.vpc_endpoint_id for each in endpoint.vpc_endpoints]}}
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(actions=actions, resources=resources, principals=[callers]),
            iam.PolicyStatement(
                actions=actions,
                resources=resources,
                principals=[anyone],
                effect=iam.Effect.DENY,
                conditions=elsewhere,
            ),
            *(iam.PolicyStatement(actions=actions, resources=[path], principals=[anyone]) for path in public),
        ]
    )


def _authorization(authorizer: AnyAuthorizer | None) -> apigateway.MethodOptions:
    """Return the authorization of methods: the authorizer if there is one, else IAM."""
    if authorizer is None:
        return apigateway.MethodOptions(authorization_type=apigateway.AuthorizationType.IAM)
    return apigateway.MethodOptions(authorizer=cast("apigateway.IAuthorizer", authorizer))
