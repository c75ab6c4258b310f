"""Pages of the findings about forecasts and links; their checks are in `conclude/forecast/findings.py`."""

from scaleproof.ground.findings.registry import Code

FORECAST_MISSED = Code(
    "forecast-missed",
    "note",
    what="The measured step is outside the interval that was written before the run: the machine, or the run, is not "
    "what it was taken for.",
    detected="A forecast with hash and time, made before the cell's first run, does not hold its mean step time.",
    seen="Analytical predictors carry a bias, not noise: SimuMax's 43 published B200 rows err by -5.6 % on average.",
    repair="Look at the waterfall of the run for the part that grew, and sweep the group: a slow link shows there. Run "
    "again where the machine was busy.",
)

SWEEP_SLOWER_THAN_LINK = Code(
    "sweep-slower-than-link",
    "suspect",
    what="Collectives reach far less than what the link is said to carry: a wrong route, a cable, a card that is "
    "shared, or a setting of NCCL.",
    detected="Bus bandwidth of the largest message below 70 % of the link's figure.",
    seen="nccl-tests issues 40, 119 and 293; open_clip issue 325: two nodes slower than one.",
    repair="Look at the pairs of nodes beside the sweep (node_pairs.csv), at topology and interface "
    "(scaleproof cluster check), and sweep again.",
)

SWEEP_UNSTABLE = Code(
    "sweep-unstable",
    "note",
    what="Launches of the same sweep differ: gloo's gather has two states, a neighbour used the link, or routes "
    "changed. Tables show the median of the launches.",
    detected="Medians of launches differ by more than 10 % at 64 KiB or more.",
    seen="One public H100 project's own figures for one shape differ by 18 % between days.",
    repair="Make more launches (forecast.launches), or measure on a machine that nobody else uses.",
)

NODE_SLOW = Code(
    "node-slow",
    "suspect",
    what="All-reduce is slow between this node and every other one: its card, its cable, or its settings. "
    "Whatever runs on it and on others waits for it.",
    detected="With four nodes or more: all pairs of the node, each in its fastest launch, below 70 % of the median "
    "node's bus bandwidth, and far below it by the spread of the pairs.",
    seen="nccl issue 318: the first useful measurement is an all-reduce between exactly two nodes; superbenchmark "
    "issue 626.",
    repair="Leave the node out: the sweep's exclude.txt has the line for --scaleproof-exclude-nodes. Tell the site.",
)

LINK_SLOW = Code(
    "link-slow",
    "suspect",
    what="All-reduce is slow between these two nodes, and with other nodes both are fast: a route or a cable between "
    "them.",
    detected="With four nodes or more: the pair, in its fastest launch, below 70 % of the median node's bus bandwidth, "
    "and far below it by the spread of the pairs; no other pair of either node is.",
    seen="open_clip issues 325 and 465: two nodes slower than one.",
    repair="Tell the site. Leave out one of the two nodes, or compare only runs that had both or neither.",
)

CALIBRATION_STALE = Code(
    "calibration-stale",
    "suspect",
    what="Runs that forecasts are made from were made with other versions than the sweep beside them: fitting one "
    "version says nothing about the next.",
    detected="Versions of torch differ between the sweeps and the runs of a campaign, or among these runs.",
    seen="DeepSpeed, NCCL and torch change bucket sizes and algorithms between minor versions.",
    repair="Repeat what is older: scaleproof retry for runs, scaleproof sweep for links.",
)

FORECAST_CODES = {
    code.name: code
    for code in (FORECAST_MISSED, SWEEP_SLOWER_THAN_LINK, SWEEP_UNSTABLE, NODE_SLOW, LINK_SLOW, CALIBRATION_STALE)
}
