"""The keys by which clusters say in which region or zone they lie: labels and claims."""

REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"

REGION_KEYS = ("region", "region.open-cluster-management.io", REGION_LABEL)
"""All that tell the region, in the order in which they are believed."""

DOMAINS = {"region": REGION_LABEL, "zone": ZONE_LABEL}
"""Short names of the usual failure domains, with the labels that clusters have for them."""


def domain_keys(key: str) -> tuple[str, ...]:
    """All keys that mean a failure domain, of which a short name may be given."""
    if key in REGION_KEYS:
        return REGION_KEYS
    return tuple(dict.fromkeys((key, DOMAINS.get(key, key))))
