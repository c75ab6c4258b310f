"""Pseudonyms for names of hosts, and for nothing else."""

from scalebench.record.host_names import Pseudonyms, hosts_of


def test_a_name_is_replaced_wherever_it_is_a_word():
    names = Pseudonyms(hosts_of({"hostname": "node"}, [{"host": "node-12"}, {"host": "node-12"}]))
    assert names.in_text("node, node-12; nodes node.local node-1") == "host2, host1; nodes host2.local node-1"


def test_without_hosts_a_text_stays_as_it_is():
    assert Pseudonyms([]).in_text("one node") == "one node"
