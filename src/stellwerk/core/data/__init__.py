"""What must move, how long that takes, what it costs: what work would meet on each cluster.

`estimate_all` gives the numbers, `rank` the order, `facts` the sentences; `held_in_*` read what
caches and folders hold.
"""

from stellwerk.core.data.catalogue import Catalogue
from stellwerk.core.data.checks import check
from stellwerk.core.data.course import course
from stellwerk.core.data.estimates import estimate_all, estimate_ways
from stellwerk.core.data.explain import alerts, disagreements, facts, margin
from stellwerk.core.data.fluid import held_in_fluid
from stellwerk.core.data.folders import held_in_folder
from stellwerk.core.data.hub import held_in_hub
from stellwerk.core.data.jobs import profile_of
from stellwerk.core.data.ranking import rank, views
from stellwerk.core.data.sources import Grounds

__all__ = [
    "Catalogue",
    "Grounds",
    "alerts",
    "check",
    "course",
    "disagreements",
    "estimate_all",
    "estimate_ways",
    "facts",
    "held_in_fluid",
    "held_in_folder",
    "held_in_hub",
    "margin",
    "profile_of",
    "rank",
    "views",
]
