"""Pseudonyms for names of hosts, and for nothing else."""

from scaleproof.ground.records.host_names import Pseudonyms, hosts_of, hosts_of_node_pairs


def test_a_name_is_replaced_wherever_it_is_a_word():
    names = Pseudonyms(hosts_of({"hostname": "node"}, [{"host": "node-12"}, {"host": "node-12"}]))
    assert names.in_text("node, node-12; nodes node.local node-1") == "host2, host1; nodes host2.local node-1"


def test_nodes_that_a_sweep_measured_in_pairs_are_hosts():
    forecast = {"sweeps": [{"group": "1x2"}, {"node_pairs": [{"first": "n2", "second": "n3.local", "seconds": 1.0}]}]}
    assert set(hosts_of_node_pairs(forecast)) == {"n2", "n3.local"}
    assert list(hosts_of_node_pairs({})) == []


def test_without_hosts_a_text_stays_as_it_is():
    assert Pseudonyms([]).in_text("one node") == "one node"
