"""The tables: what the store keeps, and the indexes that its questions need.

Texts of structs are JSON. Columns beside such a text repeat what is filtered, sorted or counted by.
Partial indexes keep ended workloads out of the questions about live and waiting ones; a query uses
them only if it holds the same words, so the conditions stand here once. The condition's column is
part of such an index as well, so that counting needs the index alone. They are spelled for SQLite
only, since naming another database here would load its dialect, a tenth of a server's start.
"""

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

BigInt = sa.BigInteger().with_variant(sqlite.INTEGER(), "sqlite")
"""64 bits everywhere; SQLite numbers its rows only under its own name for it."""

IS_LIVE = sa.text("live = 1")
IS_ENDED = sa.text("live = 0")
IS_PENDING = sa.text("phase = 'Pending'")
BY_PRIORITY = sa.text("priority DESC")

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

inbox = sa.Table(
    "inbox",
    metadata,
    sa.Column("seq", BigInt, primary_key=True, autoincrement=False),
    sa.Column("at_ms", BigInt, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("key", sa.Text),
    sa.Column("workload", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.UniqueConstraint("actor", "key", name="inbox_once"),
)

names = sa.Table(
    "names",
    metadata,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("base", sa.Text, primary_key=True),
    sa.Column("last", BigInt, nullable=False),
)

journal = sa.Table(
    "journal",
    metadata,
    sa.Column("seq", BigInt, primary_key=True, autoincrement=False),
    sa.Column("at_ms", BigInt, nullable=False),
    sa.Column("epoch", BigInt, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("workload", sa.Text),
    sa.Column("data", sa.Text, nullable=False),
    sa.Index(
        "journal_workload",
        "workload",
        "seq",
        sqlite_where=sa.text("workload IS NOT NULL"),
    ),
)

images = sa.Table(
    "images",
    metadata,
    sa.Column("seq", BigInt, primary_key=True, autoincrement=False),
    sa.Column("schema_hash", sa.Text, primary_key=True),
    sa.Column("at_ms", BigInt, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

workloads = sa.Table(
    "workloads",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("priority", BigInt, nullable=False),
    sa.Column("order", BigInt, nullable=False),
    sa.Column("submitted_ms", BigInt, nullable=False),
    sa.Column("ended_ms", BigInt, nullable=False),
    sa.Column("shape", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("live", sa.Integer, nullable=False),
    sa.Column("seq", BigInt, nullable=False),
    sa.Column("doc", sa.Text, nullable=False),
    sa.UniqueConstraint("project", "name", name="workloads_name"),
    sa.Index("workloads_order", "order"),
    sa.Index("workloads_project", "project", "order"),
    sa.Index("workloads_project_live", "project", "live", "order"),
    *(
        sa.Index(name, *columns, sqlite_where=condition)
        for name, condition, columns in (
            ("workloads_live", IS_LIVE, ("order", "phase", "live")),
            ("workloads_ended", IS_ENDED, ("phase", "order", "live")),
            ("workloads_waiting", IS_PENDING, ("queue", BY_PRIORITY, "order", "phase")),
        )
    ),
)

labels = sa.Table(
    "labels",
    metadata,
    sa.Column("workload", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Index("labels_value", "key", "value"),
)

shapes = sa.Table(
    "shapes",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("shape", sa.Text, nullable=False),
    sa.Column("decision", sa.Text, nullable=False),
    sa.Column("reasons", sa.Text, nullable=False),
    sa.Column("at_ms", BigInt, nullable=False),
)

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("at_ms", BigInt, nullable=False),
    sa.Column("doc", sa.Text, nullable=False),
)

clusters = sa.Table(
    "clusters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("at_ms", BigInt, nullable=False),
    sa.Column("doc", sa.Text, nullable=False),
)

secrets = sa.Table(
    "secrets",
    metadata,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("created_ms", BigInt, nullable=False),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
)

declared = sa.Table(
    "declared",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("doc", sa.Text, nullable=False),
)

placements = sa.Table(
    "placements",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("doc", sa.Text, nullable=False),
)

placed = sa.Table(
    "placed",
    metadata,
    sa.Column("seq", BigInt, primary_key=True, autoincrement=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("at_ms", BigInt, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Index("placed_key", "key", "seq"),
    sa.Index("placed_id", "id"),
)

parts = sa.Table(
    "parts",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
