"""What is held: the catalogue by content, and what caches, folders and Fluid are read as."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.core.data import (
    Catalogue,
    alerts,
    disagreements,
    held_in_fluid,
    held_in_folder,
    held_in_hub,
)
from stellwerk.core.data.fluid import read_part, read_size
from stellwerk.core.data.folders import (
    File,
    Manifest,
    compare,
    content_of,
    read_manifest,
    write_manifest,
)
from stellwerk.core.data.hub import HubListing, read_tree, revisions
from stellwerk.core.model.cluster import Held
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.fleet import Data, Fleet
from tests.core.data.fleets import GB, IMGS, NOW, cluster, fleet

GIB = 1024**3


def test_a_data_set_is_found_by_name_and_revision() -> None:
    """One that isn't there, or that isn't one, is answered with those that are."""
    catalogue = Catalogue((IMGS, Data("lm", "v1", 1), Data("lm", "v2", 2)))
    assert catalogue.find("imgs") == catalogue.find("imgs@r3") == IMGS
    for written, code, remedy in (
        ("lm", "data/which-revision", "v1, v2"),
        ("lm@v9", "data/unknown-revision", "v1, v2"),
        ("nope", "data/unknown", "imgs, lm"),
        ("", "data/unknown", "imgs, lm"),
    ):
        found = catalogue.find(written)
        assert isinstance(found, Problem)
        assert found.code == code
        assert remedy in found.help
    assert catalogue.revisions("lm") == ("v1", "v2")


def test_replicas_are_those_who_have_something() -> None:
    """The most first; one that lies where it may not is not allowed."""
    eu = Data("imgs", "r3", 450 * GB, residency=("EU",))
    clusters = (
        cluster("none"),
        cluster("some", 100, claims={"region": "EU"}),
        cluster("whole", 450, claims={"region": "US"}),
        cluster("unknown", None, claims={"region": "EU"}),
    )
    found = Catalogue((eu,)).replicas(eu, clusters)
    assert [(each.cluster, each.allowed) for each in found] == [
        ("whole", False),
        ("some", True),
        ("unknown", True),
    ]
    told = alerts(fleet(*clusters, data=(eu,)))
    assert [fact.sentence for fact in told] == [
        "replica of imgs on whole (US) breaks residency EU",
    ]


def test_contradictions_are_shown() -> None:
    """Of the catalogue with itself, and of clusters with it; none where all agree."""
    agreed = fleet(cluster("a", 450))
    assert disagreements(Catalogue(agreed.data), agreed) == ()
    data = (
        Data("imgs", "r3", 450 * GB, content="sha256:1"),
        Data("imgs", "r3", 451 * GB, content="sha256:2"),
        Data("twin", "v1", 7 * GB, content="sha256:3"),
        Data("copy", "v1", 8 * GB, content="sha256:3"),
    )
    held = (Held("imgs", "r3", 460 * GB, content="sha256:9", source="manifest"),)
    odd = fleet(cluster("a", held=held), data=data)
    said = [fact.sentence for fact in disagreements(Catalogue(data), odd)]
    assert said == [
        (
            f"size of imgs@r3: entry 1 says {450 * GB} bytes, entry 2 says {451 * GB} bytes; "
            "entry 1 is believed"
        ),
        "content of imgs@r3: entry 1 says sha256:1, entry 2 says sha256:2; entry 1 is believed",
        (
            f"size of content sha256:3: entry 1 says {7 * GB} bytes, entry 2 says {8 * GB} bytes; "
            "entry 1 is believed"
        ),
        (
            "content of imgs@r3 on a: catalogue says sha256:1, manifest says sha256:9; manifest is "
            "believed"
        ),
        "size of imgs@r3 on a: catalogue says 450 GB, manifest says 460 GB; catalogue is believed",
    ]


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("171.93GiB", round(171.93 * GIB)),
        ("0.00B", 0),
        ("512", 512),
        (" 1.5 TiB ", round(1.5 * 1024 * GIB)),
        ("2GB", 2 * GB),
        ("N/A", None),
        ("[Calculating]", None),
        ("", None),
        ("-1GiB", None),
        ("1e9GiB", None),
        ("٣GiB", None),
        (None, None),
        (12, None),
        ({}, None),
    ],
)
def test_sizes_of_fluid(written: object, size: int | None) -> None:
    """What is no size is none, and never an error."""
    assert read_size(written) == size


def test_parts_of_fluid() -> None:
    """May be above one; all else is unknown."""
    assert read_part("57.3%") == pytest.approx(0.573)
    assert read_part("104.1 %") == pytest.approx(1.041)
    for written in ("N/A", "57", "%", "-3%", "nan%", None, 57.3):
        assert read_part(written) is None


def test_fluid_figures_are_believed_with_care() -> None:
    """A missing one is made up for by the other; two that differ give the smaller one."""
    data = Data("d", "v1", 100 * GB)

    def read(**states: str) -> tuple[int | None, list[str]]:
        found = held_in_fluid(data, {"ufsTotal": "100GB", "cacheStates": states}, cluster="k")
        return found.held[0].bytes, [notice.code for notice in found.notices]

    assert read(cached="40GB", cachedPercentage="40.0%") == (40 * GB, [])
    assert read(cached="40GB") == (40 * GB, [])
    assert read(cachedPercentage="40.0%") == (40 * GB, [])
    assert read(cached="N/A", cachedPercentage="N/A") == (None, ["data/cache-unknown"])
    assert read(cached="90GB", cachedPercentage="40.0%") == (40 * GB, ["data/cache-contradiction"])
    assert read(cached="130GB", cachedPercentage="130%") == (100 * GB, ["data/cache-over-full"] * 2)
    for status in ({}, {"cacheStates": None}, {"cacheStates": "N/A"}, {"cacheStates": {"x": 1}}):
        found = held_in_fluid(data, status, observed_ms=NOW)
        assert found.held[0].bytes is None
        assert found.held[0].observed_ms == NOW
    larger = held_in_fluid(data, {"ufsTotal": "300GB", "cacheStates": {"cached": "90GB"}})
    assert [notice.code for notice in larger.notices] == ["data/size-differs"]


TREE = {
    "model.safetensors": {"size": 900, "blob_id": "g1", "lfs_sha256": "s1", "lfs_size": 900},
    "copy.safetensors": {"size": 900, "blob_id": "g1", "lfs_sha256": "s1", "lfs_size": 900},
    "big.bin": {
        "size": 500,
        "blob_id": "g2",
        "lfs_sha256": "s2",
        "lfs_size": 500,
        "xet_hash": "x2",
    },
    "config.json": {"size": 20, "blob_id": "g3"},
}


def listing(**more: object) -> HubListing:
    """A cache that fetched `c1`, of which `big.bin` is missing."""
    parts: dict[str, object] = {
        "folder": "models--org--name",
        "refs": {"main": "c1"},
        "snapshots": {"c1": {"model.safetensors": 900, "config.json": 20, "big.bin": None}},
        "blobs": {"s1": 900, "g3": 20, "s2.incomplete": 450},
        "trees": {"c1": json.dumps({"files": TREE, "format_version": 1})},
        "observed_ms": NOW,
        **more,
    }
    return HubListing(**parts)  # type: ignore[arg-type]


def test_a_tree_tells_what_is_missing_to_the_byte() -> None:
    """Equal content counts once, partial files never."""
    (one,) = revisions(listing())
    assert (one.total_bytes, one.held_bytes, one.missing_bytes) == (1420, 920, 500)
    assert (one.missing, one.refs, one.proved) == (("big.bin",), ("main",), False)
    found = held_in_hub(listing(), cluster="lab")
    assert found.held == (Held("org/name", "c1", 920, observed_ms=NOW, source="hub cache"),)
    assert [notice.code for notice in found.notices] == ["data/incomplete", "data/partial-files"]
    assert "lab: org/name at c1 lacks 500 B: `big.bin`" in found.notices[0].message


def test_content_that_is_stored_counts_wherever_it_came_from() -> None:
    """In the blobs that another revision brought, or in the cache's common store."""
    (one,) = revisions(listing(blobs={"s1": 900, "g3": 20, "s2": 500}))
    assert one.proved
    (one,) = revisions(listing(shared={"x2": 500}))
    assert one.proved
    (one,) = revisions(listing(shared={"x2": 499}, blobs={"s2": 3}))
    assert one.missing == ("big.bin",)
    never_fetched = listing(snapshots={}, refs={}, blobs={"s1": 900})
    (one,) = revisions(never_fetched)
    assert (one.held_bytes, one.missing) == (900, ("big.bin", "config.json"))


@pytest.mark.parametrize("trees", [{}, {"c1": "{"}, {"c1": "[]"}, {"c1": '{"files": 3}'}])
def test_a_snapshot_without_a_tree_cannot_be_proved_complete(trees: dict[str, str]) -> None:
    """What is in it counts, and the doubt is said."""
    found = held_in_hub(listing(trees=trees, blobs={}))
    assert [held.bytes for held in found.held] == [920]
    assert [notice.code for notice in found.notices] == ["data/not-provable"]
    (one,) = revisions(listing(trees=trees))
    assert (one.missing_bytes, one.proved) == (None, False)


def test_a_wanted_data_set_is_recognised_in_a_cache() -> None:
    """By the repository's name, or as the end of its origin; by commit, branch or tag."""
    wanted = (
        Data("llama", "c1", 1420, origin="hf://org/name"),
        Data("llama", "main", 1420, origin="https://hub.example/org/name/"),
        Data("org/name", "c1", 1420),
        Data("llama", "c9", 1420, origin="hf://org/name"),
        Data("other", "c1", 1420, origin="hf://other/name"),
    )
    held = held_in_hub(listing(), wanted).held
    assert [(each.data, each.revision, each.bytes) for each in held] == [
        ("org/name", "c1", 920),
        ("llama", "c1", 920),
        ("llama", "main", 920),
    ]


def test_a_tree_of_another_form_is_none() -> None:
    """Fields that are new don't matter, a wrong type does."""
    file = '{"size": 1, "blob_id": "g", "new": true}'
    whole = f'{{"format_version": 1, "files": {{"a": {file}}}, "more": 1}}'
    assert read_tree(whole) is not None
    for old, new in (
        ("1,", "2,"),
        ('"size": 1', '"size": "1"'),
        ('"blob_id": "g",', ""),
        ("}", ""),
    ):
        assert read_tree(whole.replace(old, new)) is None
    for text in ("", "null", "[1]", '{"files": {}}', '{"format_version": 1}'):
        assert read_tree(text) is None


FILES = (File("a/1.bin", 10, "h1"), File("a/2.bin", 20, "h2"), File("b.txt", 5, "h3"))


def test_a_folder_is_held_as_far_as_it_fits_its_manifest() -> None:
    """By path, size and hash; moved content counts, changed files don't."""
    there = (File("moved", 10, "h1"), File("a/2.bin", 20, "h9"), File("b.txt", 5))
    state = compare(FILES, there)
    assert (state.held_bytes, state.missing_bytes, state.unproved_bytes) == (15, 20, 5)
    assert (state.missing, state.changed) == ((), ("a/2.bin",))
    found = held_in_folder(Data("d", "v1", 35), FILES, there, cluster="lab")
    assert found.held[0].bytes == 15
    assert [notice.code for notice in found.notices] == ["data/changed", "data/not-hashed"]
    assert compare(FILES, ()).missing == ("a/1.bin", "a/2.bin", "b.txt")


def test_a_whole_folder_has_the_content_of_its_manifest() -> None:
    """Which makes it the same as any data set of that hash; a partial one proves nothing."""
    data = Data("d", "v1", 35, content=content_of(FILES))
    (held,) = held_in_folder(data, FILES, tuple(reversed(FILES))).held
    assert (held.bytes, held.content) == (35, data.content)
    other = Data("e", "v7", 35, content=data.content)
    assert Catalogue((data, other)).held(cluster("a", held=(held,)), other).found_bytes == 35
    assert held_in_folder(data, FILES, FILES[:1]).held[0].content == ""
    assert content_of((*FILES, File("c", 1))) == content_of(()) == ""


def test_a_manifest_is_read_with_all_that_is_wrong_in_it() -> None:
    """Each line with its place; what is right is used."""
    text = "10\th1\ta/1.bin\n\nx\th\ty\n5\t\t../out\n5\t\t/etc\n-1\t\tb\n10\th1\ta/1.bin\n7 h c\n"
    found = read_manifest(text, "imgs.tsv")
    assert found.files == (File("a/1.bin", 10, "h1"),)
    assert found.bytes == 10
    assert [problem.place for problem in found.problems] == [
        f"imgs.tsv:{line}" for line in (3, 4, 5, 6, 7, 8)
    ]


@settings(max_examples=25)
@given(
    st.lists(
        st.builds(
            File,
            st.text("abc/é ", min_size=1, max_size=6).map(lambda path: "f" + path),
            st.integers(0, 10**6),
            st.sampled_from(["", "h1", "h2"]),
        ),
        unique_by=lambda file: file.path,
    )
)
def test_a_manifest_reads_back(files: list[File]) -> None:
    """In any order, with and without hashes; and it is wholly held by itself."""
    found = read_manifest(write_manifest(files))
    assert found == Manifest(tuple(sorted(files, key=lambda file: file.path)))
    assert content_of(found.files) == content_of(files)
    assert compare(files, found.files).missing_bytes == 0


def test_a_fleet_without_data_has_nothing_to_say() -> None:
    """No alerts, no contradictions."""
    assert alerts(Fleet(())) == ()
    assert disagreements(Catalogue(()), Fleet(())) == ()
