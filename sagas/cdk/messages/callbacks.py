"""The secret that signs the URLs of public waits, and the permissions to read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from aws_cdk import Aws, Validations
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition
from sagas.cdk.compute.functions import SagaFunction
from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.options.service_options import ServiceOptions
from sagas.cdk.parts.alarms import Alarms, service_metric
from sagas.cdk.parts.part import Part
from sagas.errors import DefinitionError

_CHARACTERS = 64
_FINDINGS = {"AwsSolutions-SMG4": "URLs work with the last two keys only, so operators choose when to rotate."}


def has_public_waits(sagas: Iterable[SagaDefinition]) -> bool:
    """Return whether any wait of these sagas takes signals without AWS credentials."""
    return any(step.public for saga in sagas for step in saga.steps)


class CallbackSecret(Construct, Part):
    """The secret that signs callback URLs. All of these begin with ``base``."""

    def __init__(self, scope: Construct, id: str, *, options: ServiceOptions, base: str) -> None:
        super().__init__(scope, id)
        self._base = base
        self.secret = secretsmanager.Secret(
            self,
            "Secret",
            description=f"Signs the callback URLs of {options.service}",
            encryption_key=cast("kms.IKey | None", options.encryption_key),
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=_CHARACTERS, exclude_punctuation=True
            ),
            # URLs may be at a domain of the app, and outlive the API.
            removal_policy=options.removal_policy,
        )
        acknowledge(Validations.of(self.secret), _FINDINGS)

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """Count the secret, its alarm and the API's resources for callbacks, if a wait is public."""
        if not has_public_waits(catalogue.sagas):
            return 0
        return 2 if catalogue.service_options.routes_in_document else 5

    def watch(self, alarms: Alarms) -> None:
        """Watch for a secret that is too short."""
        metric = service_metric("CallbackKeyTooShort", alarms.service)
        what = "The secret of callback URLs is too short, so the previous one signs them."
        alarms.watch("CallbackKeyTooShort", metric, what, "callback-key")

    def let_sign(self, function: SagaFunction, steps: Iterable[StepDefinition]) -> None:
        """Let the function of these steps sign URLs, if one of the steps is a public wait."""
        if any(step.public for step in steps):
            self.let_check(function)

    def let_check(self, function: SagaFunction) -> None:
        """Let a function read the current and the previous key."""
        actions = ["secretsmanager:GetSecretValue"]
        arn = self.secret.secret_arn
        versions = {"StringEquals": {"secretsmanager:VersionStage": ["AWSCURRENT", "AWSPREVIOUS"]}}
        function.role.allow(iam.PolicyStatement(actions=actions, resources=[arn], conditions=versions))
        function.add_variables({"SAGAS_CALLBACK_URL": self._base, "SAGAS_CALLBACK_SECRET": arn})


def base_of(service: str, api: apigateway.RestApiBase, path: str) -> str:
    """Return the start of all URLs of an API."""
    try:
        stage = cast("apigateway.CfnStage", api.deployment_stage.node.default_child).stage_name
    except RuntimeError:
        fault = "the API of mount= has no default stage; set callback_base_url to the URL of the API"
        raise DefinitionError(f"{service}: {fault}") from None
    # Use the stage's name, not a reference to the stage, which is created after the functions.
    return f"https://{api.rest_api_id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}/{stage}{path}"
