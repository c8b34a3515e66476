"""OpenLineage events: what a run did to one table, with columns and where they come from.

Datasets: a topic is `kafka://<first bootstrap server>` / `<topic>`, a table `<warehouse>` / its name; of a REST catalog
`<uri>/<warehouse>`, for one address serves many.
A run of many tables is one run per table; its id is derived, so that an event that is sent twice is the same event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import UUID, uuid5

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    documentation_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    ownership_dataset,
    parent_run,
    schema_dataset,
)

from tidemark import __version__
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Platform
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.lineage.column_lineage import lineage_of, topic_fields, upsert_fields
from tidemark.domain.secrets import without_login
from tidemark.engine.config.discovery import Discovery

PRODUCER = f"https://github.com/tidemark/tidemark/tree/{__version__}"
JOBS = "tidemark"
_TIMEOUT = 5.0

Source = tuple[str, str] | str
"""A topic as (cluster, topic), or a table."""


@dataclass(frozen=True, slots=True)
class Activity:
    """One table in one run. `kind` says what was done to it: ingest, upsert, dbt, maintenance."""

    kind: str
    table: str
    run_id: str
    job: str
    state: Literal["START", "COMPLETE", "FAIL", "ABORT"]
    at: datetime
    inputs: tuple[Source, ...] = ()
    step: str = ""
    rows: int | None = None
    bytes: int | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        """Of the OpenLineage job."""
        return ".".join(part for part in (self.kind, self.table, self.step) if part)


class Speaker:
    """Makes events of activities and sends them, each at once."""

    def __init__(self, platform: Platform, contracts: Sequence[Contract], seen: Discovery) -> None:
        self._platform = platform
        self._contracts = {each.table: each for each in contracts}
        self._upserts = {table: each.contract for table, each in upsert_tables(contracts).items()}
        self._seen = seen
        self._client: OpenLineageClient | None = None

    def tell(self, activity: Activity) -> None:
        """Send one event. Raises whatever the transport raises: the caller decides whether it matters."""
        if self._client is None:
            self._client = OpenLineageClient(config={"transport": _patient(self._platform)})
        self._client.emit(self.event(activity))

    def event(self, activity: Activity) -> RunEvent:
        """The event of one activity."""
        run = Run(str(uuid5(_uuid(activity.run_id), activity.name)), _run_facets(activity))
        job_type = job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="TIDEMARK", jobType=activity.kind.upper()
        )
        return RunEvent(
            eventTime=activity.at.isoformat(),
            producer=PRODUCER,
            eventType=RunState[activity.state],
            run=run,
            job=Job(JOBS, activity.name, {"jobType": job_type}),
            inputs=[self._input(each) for each in activity.inputs],
            outputs=[self._output(activity)],
        )

    def _input(self, source: Source) -> InputDataset:
        namespace, name = self._dataset(source)
        facets = self._schema(source) if isinstance(source, str) else {}
        return InputDataset(namespace, name, facets=facets)

    def _output(self, activity: Activity) -> OutputDataset:
        namespace, name = self._dataset(activity.table)
        facets = {
            **self._schema(activity.table),
            **self._lineage(activity.table),
            **self._notes(activity.table),
        }
        counted = activity.rows is not None or activity.bytes is not None
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=activity.rows, size=activity.bytes
        )
        return OutputDataset(
            namespace, name, facets=facets, outputFacets={"outputStatistics": statistics} if counted else {}
        )

    def _dataset(self, source: Source) -> tuple[str, str]:
        if isinstance(source, tuple):
            cluster, topic = source
            block = self._platform.kafka.get(cluster)
            servers = block.root.get("bootstrap.servers", cluster) if block else cluster
            return f"kafka://{servers.partition(',')[0]}", topic
        catalog = self._platform.catalog
        uri = str(catalog.uri or "")
        is_url = urlsplit(uri).scheme in {"http", "https"}
        warehouse = str(catalog.warehouse or "")
        place = f"{without_login(uri).rstrip('/')}/{warehouse}" if is_url else warehouse or catalog.name
        return place.rstrip("/"), source

    def _schema(self, table: str) -> dict[str, Any]:
        columns = self._seen.columns(table)
        fields = [
            schema_dataset.SchemaDatasetFacetFields(
                name=each["name"], type=each["type"], description=each.get("doc") or None
            )
            for each in columns
        ]
        return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {}

    def _lineage(self, table: str) -> dict[str, Any]:
        fields = {
            column: column_lineage_dataset.Fields(
                inputFields=[self._field(source, name) for source, name in made_of]
            )
            for column, made_of in self._made_of(table).items()
            if made_of
        }
        return (
            {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields)}
            if fields
            else {}
        )

    def _field(self, source: Source, name: str) -> column_lineage_dataset.InputField:
        namespace, dataset = self._dataset(source)
        return column_lineage_dataset.InputField(namespace=namespace, name=dataset, field=name)

    def _made_of(self, table: str) -> dict[str, list[tuple[Source, str]]]:
        columns = self._seen.columns(table)
        names = [each["name"] for each in columns]
        contract, upsert = self._contracts.get(table), self._upserts.get(table)
        if contract is not None:
            topic = (contract.cluster, contract.topic)
            return {column: [(topic, field)] for column, field in topic_fields(contract, names)}
        if upsert is not None:
            return {column: list(made_of) for column, made_of in upsert_fields(upsert.topic, names).items()}
        lineage = lineage_of(self._seen.described(), list(self._contracts.values()))
        return {column: list(made_of) for column, made_of in lineage.get(table, {}).items()}

    def _notes(self, table: str) -> dict[str, Any]:
        contract = self._contracts.get(table) or self._upserts.get(table)
        found: dict[str, Any] = {}
        if contract and contract.description:
            found["documentation"] = documentation_dataset.DocumentationDatasetFacet(contract.description)
        if contract and contract.owners.data:
            owner = ownership_dataset.Owner(name=contract.owners.data, type="DATA")
            found["ownership"] = ownership_dataset.OwnershipDatasetFacet(owners=[owner])
        return found


def _run_facets(activity: Activity) -> dict[str, Any]:
    parent = parent_run.ParentRunFacet(
        run=parent_run.Run(runId=str(_uuid(activity.run_id))),
        job=parent_run.Job(namespace=JOBS, name=activity.job),
    )
    facets: dict[str, Any] = {"parent": parent}
    if activity.error:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=activity.error, programmingLanguage="python"
        )
    return facets


def _uuid(run_id: str) -> UUID:
    return UUID(run_id)


def _patient(platform: Platform) -> dict[str, Any]:
    """The transport as the platform file has it; HTTP waits a few seconds and not for minutes."""
    transport = dict(platform.openlineage.transport) if platform.openlineage else {"type": "noop"}
    if transport.get("type") == "http":
        transport = {"timeout": _TIMEOUT, "retry": {"total": 0}, **transport}
    return transport
