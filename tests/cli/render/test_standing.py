"""How waiting work stands, a queue's head, what if, fairness, the doctor: exact texts."""

from stellwerk.cli.checks import check_forecasts
from stellwerk.cli.render.fair import lines_of as fair_lines
from stellwerk.cli.render.standing import queue_lines, standing_lines
from stellwerk.cli.render.whatif import lines_of
from stellwerk.cli.terminal import Terminal
from stellwerk.client.ahead import Fate, Forecast, Foretold, WhatIf, WhatIfRow
from stellwerk.client.queueing import (
    Fair,
    FairPair,
    FairPerson,
    FairRow,
    OverQuota,
    PairOf,
    PastUse,
    QueueRow,
    QuotaRow,
)
from stellwerk.client.standing import Contender, Narrow, Standing, Way

PIPE = Terminal(is_tty=False, colour=False, unicode=True, width=0)
GPU = "nvidia.com/gpu"
NOW = 1_790_000_000_000


def test_a_waiting_one_reads_where_it_stands_and_what_would_help() -> None:
    """Place with what is asked before it, the narrowest level, each contender, each way in."""
    found = Standing(
        queue="vision",
        place=3,
        waiting=5,
        ahead_wants={GPU: "6", "cpu": "24"},
        narrow=[Narrow("a100", GPU, "8", "2", "lab"), Narrow("a100", "cpu", "9", "1", "vision")],
        contenders=[
            Contender("big", "w-1", "bob", "nlp", 5, {GPU: "8"}, "may not be stopped", "why not"),
        ],
        more_contenders=2,
        ways=[
            Way("quota vision a100 nvidia.com/gpu=+6", "quota", "starts now"),
            Way("priority train 6", "priority", "starts when there is room"),
        ],
    )
    assert standing_lines(found, PIPE, NOW) == [
        "  in vision: #3 of 5; the 2 before it want 6 nvidia.com/gpu, 24 cpu",
        "  8 nvidia.com/gpu of a100 asked, 2 to be had: lab lets the least through",
        "  9 cpu of a100 asked, 1 to be had: vision lets the least through",
        "",
        "  HELD BY\tOWNER\tQUEUE\tPRIO\tHOLDS\tFOR IT\tWHY",
        "  big\tbob\tnlp\t5\t8 nvidia.com/gpu\tmay not be stopped\twhy not",
        "  and 2 more",
        "what would let it start: stw whatif quota vision a100 nvidia.com/gpu=+6  (starts now)",
        "                         stw whatif priority train 6  (starts when there is room)",
    ]
    assert standing_lines(None, PIPE, NOW) == []


def test_the_head_of_a_queue_has_the_way_of_its_quota() -> None:
    """Used, borrowed, and what each cohort above has."""
    own = PairOf("a100", GPU, "8", "8", "12", "4", "2")
    cohort = PairOf("a100", GPU, "", "24", "20", "0", "4")
    row = QueueRow("vision", "lab", "StrictFIFO", 3, 2, 2, "Stopped", "Hold")
    way = [
        QuotaRow("lab", "cohort", 0, pairs=[cohort]),
        QuotaRow("vision", "queue", 1, pairs=[own]),
    ]
    assert queue_lines(row, way) == [
        "ClusterQueue vision: 3 wait, 2 run, StrictFIFO; takes nothing in: Stopped (Hold)",
        "  a100 nvidia.com/gpu: 12 of 8 used, 4 borrowed, 2 more to be had  <- lab: 20 of 24",
    ]
    assert queue_lines(None, way) == []
    row.reserving = 3
    assert queue_lines(row, [])[0].startswith(
        "ClusterQueue vision: 3 wait, 1 waiting for those to go who make room, 2 run, StrictFIFO"
    )
    own.available = "-1"  # promised to somebody before those have gone who are stopped for it
    assert "borrowed, 0 more to be had" in queue_lines(row, way)[1]


def test_what_if_reads_before_and_after_and_how_sure() -> None:
    """Nobody's start is invented, and equal futures are named."""
    waits = Fate("waits", "too little quota", "queue_quota", Forecast(NOW))
    now = Fate("starts now", forecast=Forecast(NOW, likely_ms=NOW, confidence="high"))
    gone = Fate("is stopped", "to make room for train", "queue_preempted")
    found = WhatIf(
        items=[
            WhatIfRow("w-1", "train", waits, now, "ada", "vision", "earlier", 16, 0, 16),
            WhatIfRow("w-2", "old", Fate(), gone, "bob", "nlp", "stopped"),
            WhatIfRow("w-3", "next", waits, waits, "bob", "nlp", "later", 0, 12, 16),
        ],
        unchanged=4,
        unseen=1,
        over=[OverQuota("nlp", "queue", "a100", GPU, "8", "4")],
        assumes=["a", "b"],
    )
    assert lines_of(found, PIPE, NOW) == [
        "NAME\tOWNER\tCHANGE\tSTARTS\tSURE\tREASON",
        "train\tada\tearlier\tnot known -> now\tplanned\twaits: too little quota -> starts now",
        "old\tbob\tstopped\t-\tplanned\tis stopped: to make room for train",
        "next\tbob\tlater\tnot known\t12 of 16\twaits: too little quota",
        (
            "queue nlp would use 8 nvidia.com/gpu of a100, and may use 4: nothing is stopped for "
            "that, and nothing more starts until it is less"
        ),
        "4 workloads as before, 1 of others, which aren't shown to you",
        (
            "played in 16 futures, without the change and with it, with equal lengths; confidence "
            "of the starts: 1 high, 1 none"
        ),
        "with the change nobody knows when 1 of these would likely start",
        "if a, and b",
    ]
    assert lines_of(WhatIf(), PIPE, NOW) == ["nothing changes for anybody who runs or waits"]


def test_fair_has_queues_people_and_past_use() -> None:
    """Each flavor's resource a line; hours with as many digits as matter."""
    pair = FairPair("a100", GPU, "8", "12", "4", 1204.0, 3.5, 0.02, 0.25, 1 / 3)
    found = Fair(
        queues=[FairRow("lab", "cohort", 0), FairRow("nlp", "queue", 1, 2.0, 125.4, [pair])],
        people=[FairPerson("ada", 10.0, 0.0, 1.0, None, 2)],
        past_use=[PastUse("a/x", "nlp", 0.0, {"cpu": 1.25}, None)],
        half_life_ms=3_600_000,
    )
    assert fair_lines(found, PIPE) == [
        (
            "COHORT / QUEUE\tFLAVOR\tRESOURCE\tNOW\tHELD H\tPART\tFAIR\tBORROWED H\tLENT H"
            "\tSHARE\tWEIGHT"
        ),
        "  nlp\ta100\tnvidia.com/gpu\t12/8\t1,204\t25 %\t33 %\t3.5\t0.02\t125\t2",
        "(part: of what was held in the tree; fair: of the tree's quota; share: now)",
        "",
        "PERSON\tGPU H\tPART\tCPU H\tPART\tLIVE",
        "ada\t10.0\t100 %\t0\t-\t2",
        "",
        "past use of LocalQueues, half of it gone after 1 h 00 min:",
        "LOCALQUEUE\tQUEUE\tUSED\tWEIGHT\tCOUNTS",
        "a/x\tnlp\t1.25 cpu\t0\tlast",
    ]
    assert fair_lines(Fair(), PIPE) == ["nobody held anything"]


def test_the_doctor_says_how_starts_came_and_of_how_few() -> None:
    """Nothing without a start that was forecast; a warning only where there were enough."""
    assert list(check_forecasts(None)) == list(check_forecasts(Foretold())) == []
    [few] = check_forecasts(Foretold(2, 1, 2, 1, 30_000, 30_000, 600_000))
    assert few.state == "ok"
    assert few.what == (
        "of 2 forecast starts, told 5 min ahead on average, 50 % came by the median and 100 % by "
        "the 90 % quantile; 30.0 s off on average, and of 1 nobody could tell (too few to say "
        "much)"
    )
    [late] = check_forecasts(Foretold(40, 4, 20, 0, 0, 40_000, 0))
    assert (late.state, bool(late.remedy)) == ("warn", True)
    [dark] = check_forecasts(Foretold(unknown=3))
    assert "of 3 nobody could tell" in dark.what
