"""States which accelerators there are: canonical name, maker, memory as sold, other names.

Names follow SkyPilot's catalogue where it has one. An alias is written as drivers (NVML, amdsmi)
or people write it; case, spaces, punctuation and the words `NVIDIA`, `GeForce`, `Tesla`, `AMD` and
the like don't count. `family` groups the sizes of one chip.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Vendor = Literal["nvidia", "amd", "intel", "google", "aws"]


class Device(NamedTuple):
    """One kind of accelerator; `memory_gib` is what a single card is sold with."""

    name: str
    vendor: Vendor
    memory_gib: int
    aliases: tuple[str, ...] = ()
    family: str = ""


def _family(
    vendor: Vendor, family: str, *members: tuple[str, int, tuple[str, ...]]
) -> tuple[Device, ...]:
    return tuple(Device(name, vendor, gib, aliases, family) for name, gib, aliases in members)


def _cards(vendor: Vendor, prefix: str, **sizes: int) -> tuple[Device, ...]:
    """Cards whose name is a prefix and a model: `RTX` and `_4090` make RTX4090."""
    names = ((prefix + model.lstrip("_"), gib) for model, gib in sizes.items())
    return tuple(Device(name, vendor, gib, (), name) for name, gib in names)


# fmt: off
_DATA_CENTRE_NVIDIA = (
    *_family(
        "nvidia", "A100",
        ("A100", 40, ("A100-40GB", "A100-SXM4-40GB", "A100-PCIE-40GB", "A100-SXM-40GB", "A100-PCIe",
                      "A100-SXM4")),
        ("A100-80GB", 80, ("A100-SXM4-80GB", "A100 80GB PCIe", "A100-SXM-80GB", "A100-PCIE-80GB",
                           "A100-80GB-SXM", "A100X")),
        ("A100-64GB", 64, ("A100-SXM-64GB", "A100-SXM4-64GB")),
    ),
    *_family(
        "nvidia", "H100",
        ("H100", 80, ("H100-80GB", "H100 80GB HBM3", "H100 PCIe", "H100-SXM", "H100-SXM5",
                      "H100-SXM5-80GB", "H100 80GB", "H100-80GB-HBM3", "H800")),
        ("H100-NVL", 94, ("H100 NVL", "H100-NVL-94GB", "H100-94GB")),
        ("H100-MEGA", 80, ("H100-MEGA-80GB",)),
    ),
    *_family("nvidia", "H200", ("H200", 141, ("H200-SXM", "H200 NVL", "H200-141GB", "H200-SXM5"))),
    *_family("nvidia", "H20", ("H20", 96, ("H20-96GB",)), ("H20-141GB", 141, ("H20-3e",))),
    *_family(
        "nvidia", "GH200",
        ("GH200", 96, ("GH200 480GB", "GH200-96GB", "GH200 120GB")),
        ("GH200-144GB", 144, ("GH200 144G HBM3e", "GH200 144GB")),
    ),
    *_family("nvidia", "B100", ("B100", 192, ())),
    *_family("nvidia", "B200", ("B200", 180, ("B200-SXM", "B200-180GB", "B200-192GB"))),
    *_family("nvidia", "B300", ("B300", 288, ("B300 SXM6 AC", "B300-SXM", "B300-288GB"))),
    *_family("nvidia", "GB200", ("GB200", 192, ("GB200-NVL72",))),
    *_family("nvidia", "GB300", ("GB300", 288, ("GB300-NVL72",))),
    *_family("nvidia", "GB10", ("GB10", 128, ("DGX Spark", "DGX-Spark-GB10"))),
    *_family("nvidia", "L4", ("L4", 24, ("L4-24GB",))),
    *_family("nvidia", "L40", ("L40", 48, ("L40-48GB", "L40G"))),
    *_family("nvidia", "L40S", ("L40S", 48, ("L40S-48GB",))),
    *_family("nvidia", "A2", ("A2", 16, ())),
    *_family("nvidia", "A10", ("A10", 24, ("A10-24GB", "A10M"))),
    *_family("nvidia", "A10G", ("A10G", 24, ())),
    *_family("nvidia", "A16", ("A16", 16, ())),
    *_family("nvidia", "A30", ("A30", 24, ("A30-24GB",))),
    *_family("nvidia", "A40", ("A40", 48, ("A40-48GB",))),
    *_family("nvidia", "T4", ("T4", 16, ("Tesla T4", "T4-16GB"))),
    *_family("nvidia", "T4g", ("T4g", 16, ())),
    *_family(
        "nvidia", "V100",
        ("V100", 16, ("V100-16GB", "V100-SXM2-16GB", "V100-PCIE-16GB", "V100-SXM2", "V100-PCIE")),
        ("V100-32GB", 32, ("V100-SXM2-32GB", "V100-PCIE-32GB", "V100-SXM3-32GB", "V100S",
                           "V100S-PCIE-32GB", "V100-SXM3-32GB-H")),
    ),
    *_family(
        "nvidia", "P100",
        ("P100", 16, ("P100-PCIE-16GB", "P100-SXM2-16GB", "P100-16GB")),
        ("P100-12GB", 12, ("P100-PCIE-12GB",)),
    ),
    *_family("nvidia", "P40", ("P40", 24, ())),
    *_family("nvidia", "P4", ("P4", 8, ())),
    *_family("nvidia", "K80", ("K80", 12, ())),
    *_family("nvidia", "M60", ("M60", 8, ())),
    *_family("nvidia", "M40", ("M40", 12, ()), ("M40-24GB", 24, ("M40 24GB",))),
)

_WORKSTATION_NVIDIA = (
    *_family("nvidia", "RTXA2000", ("RTXA2000", 6, ("RTX A2000", "A2000")),
             ("RTXA2000-12GB", 12, ("RTX A2000 12GB",))),
    *_family("nvidia", "RTXA4000", ("RTXA4000", 16, ("RTX A4000", "A4000"))),
    *_family("nvidia", "RTXA4500", ("RTXA4500", 20, ("RTX A4500", "A4500"))),
    *_family("nvidia", "RTXA5000", ("RTXA5000", 24, ("RTX A5000", "A5000"))),
    *_family("nvidia", "RTXA5500", ("RTXA5500", 24, ("RTX A5500", "A5500"))),
    *_family("nvidia", "RTXA6000", ("RTXA6000", 48, ("RTX A6000", "A6000"))),
    *_family("nvidia", "RTX2000-Ada", ("RTX2000-Ada", 16, ("RTX 2000 Ada Generation",))),
    *_family("nvidia", "RTX4000-Ada", ("RTX4000-Ada", 20, ("RTX 4000 Ada Generation",
                                                            "RTX 4000 SFF Ada Generation"))),
    *_family("nvidia", "RTX4500-Ada", ("RTX4500-Ada", 24, ("RTX 4500 Ada Generation",))),
    *_family("nvidia", "RTX5000-Ada", ("RTX5000-Ada", 32, ("RTX 5000 Ada Generation",))),
    *_family("nvidia", "RTX5880-Ada", ("RTX5880-Ada", 48, ("RTX 5880 Ada Generation",))),
    *_family("nvidia", "RTX6000-Ada", ("RTX6000-Ada", 48, ("RTX 6000 Ada Generation", "RTX6000Ada",
                                                            "RTX Ada 6000"))),
    *_family("nvidia", "RTXPRO4000", ("RTXPRO4000", 24, ("RTX PRO 4000 Blackwell",))),
    *_family("nvidia", "RTXPRO4500", ("RTXPRO4500", 32, ("RTX PRO 4500 Blackwell",))),
    *_family("nvidia", "RTXPRO5000", ("RTXPRO5000", 48, ("RTX PRO 5000 Blackwell",)),
             ("RTXPRO5000-72GB", 72, ("RTX PRO 5000 72GB Blackwell",))),
    *_family("nvidia", "RTXPRO6000", ("RTXPRO6000", 96, (
        "RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Workstation Edition",
        "RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell",
        "RTX PRO 6000 Server Edition", "RTXPRO6000-96GB"))),
    *_family("nvidia", "RTX4000", ("RTX4000", 8, ("Quadro RTX 4000",))),
    *_family("nvidia", "RTX5000", ("RTX5000", 16, ("Quadro RTX 5000",))),
    *_family("nvidia", "RTX6000", ("RTX6000", 24, ("Quadro RTX 6000", "RTX6000-Passive"))),
    *_family("nvidia", "RTX8000", ("RTX8000", 48, ("Quadro RTX 8000", "RTX8000-Passive"))),
    *_family("nvidia", "TITAN-RTX", ("TITAN-RTX", 24, ("TITAN RTX",))),
    *_family("nvidia", "TITAN-V", ("TITAN-V", 12, ("TITAN V",))),
    *_family("nvidia", "TITAN-Xp", ("TITAN-Xp", 12, ("TITAN Xp", "TITAN X (Pascal)"))),
)

_CONSUMER_NVIDIA = (
    *_cards("nvidia", "GTX", _1060=6, _1070=8, _1070Ti=8, _1080=8, _1080Ti=11, _1650=4, _1660=6,
            _1660Ti=6, _1660S=6),
    *_cards("nvidia", "RTX", _2060=6, _2060S=8, _2070=8, _2070S=8, _2080=8, _2080S=8, _2080Ti=11),
    *_family("nvidia", "RTX3050", ("RTX3050", 8, ()), ("RTX3050-6GB", 6, ())),
    *_family("nvidia", "RTX3060", ("RTX3060", 12, ("RTX3060-12GB",)), ("RTX3060-8GB", 8, ())),
    *_cards("nvidia", "RTX", _3060Ti=8, _3070=8, _3070Ti=8),
    *_family("nvidia", "RTX3080", ("RTX3080", 10, ("RTX3080-10GB",)), ("RTX3080-12GB", 12, ())),
    *_cards("nvidia", "RTX", _3080Ti=12, _3090=24, _3090Ti=24),
    *_family("nvidia", "RTX4060Ti", ("RTX4060Ti", 8, ()), ("RTX4060Ti-16GB", 16, ())),
    *_cards("nvidia", "RTX", _4060=8, _4070=12, _4070S=12, _4070Ti=12, _4070TiS=16, _4080=16,
            _4080S=16, _4090=24, _4090D=24),
    *_family("nvidia", "RTX5060Ti", ("RTX5060Ti", 16, ("RTX5060Ti-16GB",)),
             ("RTX5060Ti-8GB", 8, ())),
    *_cards("nvidia", "RTX", _5050=8, _5060=8, _5070=12, _5070Ti=16, _5080=16, _5090=32, _5090D=32),
)

_AMD = (
    *_cards("amd", "MI", _25=16, _60=32, _100=32, _210=64, _250=128, _250X=128, _300A=128,
            _300X=192, _308X=192, _325X=256, _350X=288, _355X=288),
    *_family("amd", "MI50", ("MI50", 16, ()), ("MI50-32GB", 32, ())),
    *_cards("amd", "W", _6800=32, _7700=16, _7800=32, _7900=48),
    *_cards("amd", "RX", _6800XT=16, _6900XT=16, _7600XT=16, _7700XT=12, _7800XT=16, _7900GRE=16,
            _7900XT=20, _7900XTX=24, _9060XT=16, _9070=16, _9070XT=16),
    *_family("amd", "R9700", ("R9700", 32, ("AI PRO R9700",))),
)

_OTHERS = (
    *_family("intel", "Max1100", ("Max1100", 48, ("Data Center GPU Max 1100",))),
    *_family("intel", "Max1550", ("Max1550", 128, ("Data Center GPU Max 1550",))),
    *_family("intel", "Flex140", ("Flex140", 12, ("Data Center GPU Flex 140",))),
    *_family("intel", "Flex170", ("Flex170", 16, ("Data Center GPU Flex 170",))),
    *_cards("intel", "Arc", A750=8, A770=16, B570=10, B580=12),
    *_family("intel", "ArcProB50", ("ArcProB50", 16, ("Arc Pro B50",))),
    *_family("intel", "ArcProB60", ("ArcProB60", 24, ("Arc Pro B60",))),
    *_family("intel", "Gaudi", ("Gaudi", 32, ("Gaudi HL-205", "HL-205"))),
    *_family("intel", "Gaudi2", ("Gaudi2", 96, ("HL-225",))),
    *_family("intel", "Gaudi3", ("Gaudi3", 128, ("HL-325L",))),
    *_family("google", "tpu-v2", ("tpu-v2", 16, ())),
    *_family("google", "tpu-v3", ("tpu-v3", 32, ())),
    *_family("google", "tpu-v4", ("tpu-v4", 32, ())),
    *_family("google", "tpu-v5e", ("tpu-v5e", 16, ("tpu-v5litepod", "tpu-v5"))),
    *_family("google", "tpu-v5p", ("tpu-v5p", 95, ())),
    *_family("google", "tpu-v6e", ("tpu-v6e", 32, ())),
    *_family("google", "tpu-v7x", ("tpu-v7x", 192, ("tpu-v7",))),
    *_cards("aws", "Trainium", _=32, _2=96, _3=144),
    *_cards("aws", "Inferentia", _=8, _2=32),
)
# fmt: on

DEVICES: tuple[Device, ...] = (
    *_DATA_CENTRE_NVIDIA,
    *_WORKSTATION_NVIDIA,
    *_CONSUMER_NVIDIA,
    *_AMD,
    *_OTHERS,
)
