"""The archive of the audit trail: a function reads the audit table's stream and writes to a bucket."""

from __future__ import annotations

from typing import Any, cast

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from constructs import Construct

from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.compute.permissions import allow_archiving
from sagas.cdk.compute.streams import follow, stream_of
from sagas.cdk.data.encryption import allow_key, private_bucket
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.options.function_options import USUAL
from sagas.cdk.options.service_options import METRICS_NAMESPACE, ServiceOptions
from sagas.cdk.options.values import Archive
from sagas.cdk.parts.alarms import FEW_MINUTES, Alarms
from sagas.cdk.parts.part import Part

_TIMEOUT = 60
_BATCH = 1_000
_WINDOW = Duration.seconds(60)
"""How long the function collects entries for one object: storage is cheap, requests are not."""
_ARCHIVED_BY = 3600
"""An audit entry is late if it is not archived after this many seconds. The stream drops it after a day."""
_VARIABLE = "SAGAS_ARCHIVE_BUCKET"
"""The same name as in ``sagas.handlers.archiving``, which a deployment cannot import."""


class AuditArchive(Construct, Part):
    """Copies each entry of the audit trail to a bucket within about a minute, and retries until it succeeds."""

    def __init__(self, scope: Construct, id: str, *, shared: SharedAssets, archive: Archive) -> None:
        super().__init__(scope, id)
        options = shared.options
        table = shared.tables.audit
        stream = stream_of(table, f"{options.service}: archive: tables: audit", old=False)
        bucket = self._bucket(archive, options) if archive.bucket is None else archive.bucket
        self.bucket = cast("s3.IBucket", bucket)
        function = SagaFunction(
            self,
            "Copy",
            shared=shared,
            handler="sagas.handlers.archiving.handler",
            timeout=_TIMEOUT,
            environment={
                _VARIABLE: bucket.bucket_name,
                "POWERTOOLS_SERVICE_NAME": options.service,
                "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
                "POWERTOOLS_LOG_LEVEL": options.log_level,
                **(options.environment or {}),
            },
            function=USUAL,
            description="Copies the audit trail to S3",
        )
        self.function = function.function
        allow_archiving(function.role, self.bucket)
        for key in shared.tables.keys:
            allow_key(function.role, key)
        self._followed = table
        # This queue names the entries that could not be copied within a day. The table still has them.
        self.missed = follow(
            function,
            table,
            stream,
            lost="Missed",
            encryption_key=options.encryption_key,
            batch_size=_BATCH,
            window=_WINDOW,
            filters=[{"eventName": ["INSERT", "MODIFY"]}],
        )

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """Count the archive's bucket, function, queue and alarms, if the service has an archive."""
        options = catalogue.service_options
        return 0 if options.archive is None else 12 + options.alarms_by_step

    def watch(self, alarms: Alarms) -> None:
        """Watch the age of the oldest entry not yet archived, calls of the function, and the queue of entries that will
        never be archived."""
        lag = self.function.metric("IteratorAge", statistic="Maximum", period=FEW_MINUTES)
        late = "The audit trail is not being archived; entries older than a day will be missing."
        alarms.watch("ArchiveLate", lag, late, "archive", above=_ARCHIVED_BY * 1000, periods=3)
        lost = "Audit entries are missing from the archive."
        stopped = "Audit entries are written, but the function that archives them is not called."
        alarms.watch_silence("ArchiveStopped", self.function, self._followed, stopped, "archive")
        alarms.watch_errors("ArchiveErrors", self.function, "The function that archives the audit trail")
        alarms.watch_letters("ArchiveMissed", self.missed, lost, "archive", period=FEW_MINUTES)

    def _bucket(self, archive: Archive, options: ServiceOptions) -> s3.Bucket:
        lock = None
        if archive.lock is not None:
            days = Duration.days(archive.lock.days)
            kind = s3.ObjectLockRetention
            lock = kind.compliance(days) if archive.compliance else kind.governance(days)
        locked: dict[str, Any] = {"object_lock_enabled": True, "object_lock_default_retention": lock} if lock else {}
        unlogged = "Only one function writes here, once a minute, and reads nothing; CloudTrail records readers."
        return private_bucket(self, "Bucket", options, unlogged, versioned=True, **locked)
