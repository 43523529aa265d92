"""The API's OpenAPI 3.1 document, made of the handlers and models when it is first asked for."""

from functools import lru_cache
from typing import Any

import msgspec
from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme, Tag
from litestar.types import ControllerRouterHandler

from stellwerk.server.rules import MEDIA_TYPE, ProblemDocument

DESCRIPTION = (
    "Describes, queues, places, runs, watches, recovers and explains AI workloads. Every answer "
    "carries `Stellwerk-Seq`, the sequence number of the journal that it reflects at least; every "
    "answer that isn't a success is `application/problem+json`. Times are UTC milliseconds."
)
TAGS = [
    Tag("server", "The server itself."),
    Tag("workloads", "Submitting, watching and steering work."),
    Tag("fleet", "What there is to run on."),
    Tag("queues", "Who may use how much, and what is used."),
    Tag("events", "The journal, as it grows."),
    Tag("content", "Code and files by the hash of their content."),
]
PROBLEM = "Problem"


@lru_cache(maxsize=1)
def openapi_json(version: str, handlers: tuple[ControllerRouterHandler, ...]) -> bytes:
    """The document as JSON; an application of its own makes it, so ours serves nothing else."""
    token = SecurityScheme(
        type="http",
        scheme="bearer",
        description="Needed over TCP; on the Unix socket the kernel says who calls.",
    )
    config = OpenAPIConfig(
        title="Stellwerk",
        version=version,
        description=DESCRIPTION,
        tags=TAGS,
        components=Components(security_schemes={"token": token}),
        security=[{}, {"token": []}],
        use_handler_docstrings=True,
        render_plugins=[JsonRenderPlugin()],
        operation_id_creator=lambda handler, _method, _path: handler.fn.__name__,
    )
    maker = Litestar(
        [Router("/v1", route_handlers=handlers)],
        dependencies={
            "services": Provide(_no_services, sync_to_thread=False),
            "submits": Provide(_no_submits, sync_to_thread=False),
            "keeper": Provide(_no_keeper, sync_to_thread=False),
            "machines": Provide(_no_machines, sync_to_thread=False),
            "outlook": Provide(_no_outlook, sync_to_thread=False),
        },
        openapi_config=config,
        logging_config=None,
    )
    return msgspec.json.encode(_with_problems(maker.openapi_schema.to_schema()))


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    """Says of each operation how it refuses."""
    (problem,), components = msgspec.json.schema_components(
        [ProblemDocument], ref_template="#/components/schemas/{name}"
    )
    schemas = document["components"].setdefault("schemas", {})
    schemas.update(components)
    schemas[PROBLEM] = schemas.pop(problem["$ref"].rpartition("/")[2])
    refused = {
        "description": "Refused: every problem at once.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{PROBLEM}"}}},
    }
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("400", None)
            operation["responses"]["default"] = refused
    return document


def _no_services() -> None:
    """Stands in for what handlers are given: none of them is called to make the document."""


def _no_submits() -> None:
    """Likewise."""


def _no_keeper() -> None:
    """Likewise."""


def _no_machines() -> None:
    """Likewise."""


def _no_outlook() -> None:
    """Likewise."""
