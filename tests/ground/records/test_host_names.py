"""Pseudonyms for names of hosts, and for nothing else."""

from scaleproof.ground.findings.forecast_report import ForecastReport, SweepReport
from scaleproof.ground.records.host_names import Pseudonyms, hosts_of


def test_a_name_is_replaced_wherever_it_is_a_word():
    names = Pseudonyms(hosts_of({"hostname": "node"}, [{"host": "node-12"}, {"host": "node-12"}]))
    assert names.in_text("node, node-12; nodes node.local node-1") == "host2, host1; nodes host2.local node-1"


def test_nodes_that_a_sweep_measured_in_pairs_are_hosts():
    known = {"backend": "nccl", "device": "cuda", "tool": "", "link": None, "rows": [], "unstable": [], "weak": []}
    pair = {"nbytes": 8, "seconds": 1.0, "bus_bytes_per_s": 8.0, "best_bus_bytes_per_s": 8.0}
    pairs = [pair | {"first": "n2", "second": "n3.local"}]
    report = ForecastReport.model_construct(
        sweeps=[SweepReport(group="1x2", **known), SweepReport(group="2x1", node_pairs=pairs, **known)]
    )
    assert report.hosts == {"n2", "n3.local"}


def test_without_hosts_a_text_stays_as_it_is():
    assert Pseudonyms([]).in_text("one node") == "one node"
