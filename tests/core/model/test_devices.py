"""A name in anyone's spelling finds the card meant; a wish by memory finds cards that have it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.model.device_table import DEVICES
from stellwerk.core.model.devices import (
    VENDORS,
    AcceleratorSelector,
    NamedAccelerator,
    canonical_name,
    find_device,
    kind_of_device,
    parse_accelerator,
    selects,
    sold_memory_gib,
    vendor_of,
)
from stellwerk.core.model.quantity import GIB, MIB, BadQuantity


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a100", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("nvidia_a100_80gb_pcie", "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("nvidia_geforce_rtx_3090", "RTX3090"),
        ("rtx-4090", "RTX4090"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX4070TiS"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX2080Ti"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000-Ada"),
        ("Quadro RTX 6000", "RTX6000"),
        ("NVIDIA RTX A6000", "RTXA6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTXPRO6000"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("Tesla T4", "T4"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Radeon RX 7900 XTX", "RX7900XTX"),
        ("Intel(R) Arc(TM) A770 Graphics", "ArcA770"),
        ("TPU-V5E-8", "tpu-v5e-8"),
        ("trainium2", "Trainium2"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100-MIG-1g.5gb"),
        ("mig-3g.40gb", "MIG-3g.40gb"),
        ("HomeGrown-1", "HomeGrown-1"),
    ],
)
def test_names(written: str, name: str) -> None:
    """Case, spaces, punctuation and a maker's words don't count; unknown names stay as they are."""
    assert canonical_name(written) == name


def test_every_name_and_alias_finds_its_own_card() -> None:
    """No alias is taken by another card, whatever the case and the separators."""
    for device in DEVICES:
        for name in (device.name, *device.aliases):
            for spelling in (name, name.upper(), name.lower().replace(" ", "_")):
                found = find_device(spelling)
                assert found is not None, spelling
                assert found.family == device.family, spelling
                assert found.memory_gib == device.memory_gib, spelling


def test_the_table_is_sane() -> None:
    """Names are unique, makers known, and every size is one that cards are sold with."""
    assert len({device.name for device in DEVICES}) == len(DEVICES) >= 90
    for device in DEVICES:
        assert device.vendor in VENDORS
        assert device.vendor in {"google", "aws"} or device.memory_gib == sold_memory_gib(
            device.memory_gib * GIB
        )


@pytest.mark.parametrize(
    ("reported", "total_mib", "kind"),
    [
        ("NVIDIA A100-PG509-200", 81920, "A100-80GB"),
        ("NVIDIA A100-PG509-200", 40960, "A100"),
        ("NVIDIA GeForce RTX 3080", 12288, "RTX3080-12GB"),
        ("NVIDIA GeForce RTX 3080", 10240, "RTX3080"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", 6144, "RTX3060"),
        ("NVIDIA H100 80GB HBM3", 81559, "H100"),
        ("NVIDIA B200", 183359, "B200"),
        ("NVIDIA Foo 9000", 8192, "Foo9000"),
        ("NVIDIA", 8192, "unknown"),
    ],
)
def test_what_a_driver_reports(reported: str, total_mib: int, kind: str) -> None:
    """Where the name leaves the memory out, the memory decides between siblings."""
    assert kind_of_device(reported, total_mib * MIB) == kind


@pytest.mark.parametrize(
    ("total_mib", "sold"),
    [(23028, 24), (24564, 24), (15109, 16), (81559, 80), (11264, 11), (143771, 141), (4864, 5)],
)
def test_memory_as_sold(total_mib: int, sold: int) -> None:
    """Error correction and the driver's share don't make an A10 a card of 22.5 GiB."""
    assert sold_memory_gib(total_mib * MIB) == sold


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("A100", "A100", 1),
        ("a100:4", "A100", 4),
        ("A100:0.5", "A100", 0.5),
        ("A100:.5", "A100", 0.5),
        ("A100:2.0", "A100", 2),
        ("24:2", "24", 2),
    ],
)
def test_accelerators_by_name(text: str, name: str, count: float) -> None:
    """A name and a count, which may be a part of a card."""
    parsed = parse_accelerator(text)
    assert isinstance(parsed, NamedAccelerator)
    assert (parsed.name, parsed.count) == (name, count)


@pytest.mark.parametrize(
    ("text", "gib", "at_least", "count", "vendor"),
    [
        ("24GB", 24, False, 1, None),
        ("24GB+", 24, True, 1, None),
        ("24GB+:2", 24, True, 2, None),
        ("nvidia:24GB+", 24, True, 1, "nvidia"),
        ("NVIDIA:24GB+:2", 24, True, 2, "nvidia"),
        ("amd:64gb", 64, False, 1, "amd"),
        ("1TB", 1024, False, 1, None),
        ("80Gi+", 80, True, 1, None),
    ],
)
def test_accelerators_by_memory(
    text: str, gib: int, at_least: bool, count: float, vendor: str | None
) -> None:
    """A selector is kept as a wish, with its count and the maker if one is named."""
    expected = AcceleratorSelector(gib * GIB, at_least, count, vendor, text)
    assert parse_accelerator(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", ":", "A100:", "A100:0", "A100:-1", "A100:two", "a:b:c", "24GB:2:3", "acme:24GB", "0GB"],
)
def test_what_is_no_accelerator(text: str) -> None:
    """Each comes back with a reason and a way to write it."""
    bad = parse_accelerator(text)
    assert isinstance(bad, BadQuantity)
    assert bad.help


def test_a_selector_finds_cards() -> None:
    """By the table for a name alone, by what is there where that is known."""
    wish = AcceleratorSelector(24 * GIB, at_least=True, count=2)
    exactly = AcceleratorSelector(24 * GIB)
    assert selects(wish, "RTX4090")
    assert selects(wish, "A100-80GB")
    assert selects(wish, "A10", 23028 * MIB)
    assert not selects(exactly, "A100")
    assert selects(exactly, "A10", 23028 * MIB)
    assert not selects(wish, "RTX3060")
    assert not selects(AcceleratorSelector(12 * GIB), "RTX3060", 6144 * MIB)
    assert selects(wish, "HomeGrown-1", 40 * GIB)
    assert not selects(wish, "HomeGrown-1")


def test_a_selector_may_name_the_maker() -> None:
    """`amd:64GB+` leaves every NVIDIA card out, also one that the table doesn't know."""
    wish = AcceleratorSelector(64 * GIB, at_least=True, vendor="amd")
    assert selects(wish, "MI300X")
    assert not selects(wish, "H100")
    assert not selects(wish, "NVIDIA Foo", 80 * GIB)
    assert vendor_of("NVIDIA Foo") == "nvidia"
    assert vendor_of("Foo") is None


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    """Any name and any driver's report give an answer."""
    assert parse_accelerator(text) is not None
    assert isinstance(canonical_name(text), str)
    assert kind_of_device(text, 8 * GIB)
    assert canonical_name(canonical_name(text)) == canonical_name(text)
