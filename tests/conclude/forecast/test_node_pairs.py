"""Pairs of nodes: the schedule, what is accused and what is not, the files, and real ranks of four nodes."""

import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from patience import HANGS
from simulated_networks import node_pair, node_pairs

from scaleproof.conclude.forecast.collective import exclusion_list, judge_node_pairs, tournament_rounds
from scaleproof.conclude.forecast.findings import links_between_nodes_are_equal, nodes_reach_each_other_equally
from scaleproof.conclude.forecast.sweep_file import Calls, Launch, PairCalls, Sweep, pair_rows, write_node_pairs
from scaleproof.conclude.forecast.text import sweep_text
from scaleproof.conclude.report.charts.node_pairs import draw_node_pairs
from scaleproof.ground.findings.forecast_report import NodePair

GB = 1e9


@pytest.mark.parametrize("n", range(1, 14))
def test_every_pair_runs_once_and_no_node_twice_in_a_round(n):
    schedule = tournament_rounds(n)
    assert sorted(pair for pairs in schedule for pair in pairs) == list(combinations(range(n), 2))
    for pairs in schedule:
        nodes = [node for pair in pairs for node in pair]
        assert len(nodes) == len(set(nodes))
    assert len([pairs for pairs in schedule if pairs]) == (0 if n < 2 else n - 1 + n % 2), "no more rounds than needed"


def network(n: int, slow: tuple = (), factor: float = 0.5, spread: float = 0.02, seed: int = 0) -> list[NodePair]:
    return node_pairs(np.random.default_rng(seed), n, spread, slow, factor)


@pytest.mark.parametrize("n", [4, 5, 8, 16])
def test_a_node_that_is_slow_with_all_others_is_named_and_excluded(n):
    verdict = judge_node_pairs(network(n, slow=(n - 1,)))
    assert verdict.slow_nodes == (f"n{n - 1}",)
    assert verdict.slow_links == verdict.unexplained == ()
    assert exclusion_list(verdict) == f"n{n - 1}\n"


def test_two_slow_nodes_are_both_named():
    assert exclusion_list(judge_node_pairs(network(8, slow=(2, 5)))) == "n2,n5\n"


@pytest.mark.parametrize("n", [4, 5, 8, 16])
def test_one_slow_pair_is_a_link_and_excludes_no_node(n):
    verdict = judge_node_pairs(network(n, slow=((0, 2),)))
    assert [(row.first, row.second) for row in verdict.slow_links] == [("n0", "n2")]
    assert verdict.slow_nodes == ()
    assert exclusion_list(verdict) == "\n"


def test_a_slow_node_and_a_slow_link_are_told_apart():
    verdict = judge_node_pairs(network(8, slow=(7, (0, 2))))
    assert verdict.slow_nodes == ("n7",)
    assert [(row.first, row.second) for row in verdict.slow_links] == [("n0", "n2")]


def test_fewer_than_four_nodes_accuse_nothing():
    for n in (2, 3):
        verdict = judge_node_pairs(network(n, slow=(0,), factor=0.1))
        assert verdict.bound is None
        assert verdict.slow_nodes == verdict.slow_links == ()


@pytest.mark.parametrize("case", [(), ((0, 2),), (3,)])
def test_differences_that_matter_little_accuse_nothing(case):
    verdict = judge_node_pairs(network(8, slow=case, factor=0.8))
    assert verdict.slow_nodes == verdict.slow_links == verdict.unexplained == ()


def test_an_uneven_network_accuses_no_node():
    """Pairs that differ by a third for no reason: whichever is slowest has done nothing."""
    accused = [judge_node_pairs(network(n, spread=0.35, seed=seed)) for n in (4, 6, 8) for seed in range(60)]
    assert not any(verdict.slow_nodes for verdict in accused)
    assert sum(bool(verdict.slow_links) for verdict in accused) <= 0.05 * len(accused)


def test_pairs_across_two_switches_are_neither_a_node_nor_a_link():
    across = tuple((a, b) for a in range(6) for b in (6, 7))
    verdict = judge_node_pairs(network(8, slow=across))
    assert verdict.slow_nodes == verdict.slow_links == ()
    assert len(verdict.unexplained) == len(across)
    half = tuple((a, b) for a in range(4) for b in range(4, 8))
    assert judge_node_pairs(network(8, slow=half)).unexplained == (), "most pairs are such: that is how this network is"


def test_a_pair_that_was_fast_in_one_launch_is_not_accused():
    rows = network(8, slow=((0, 2),))
    assert judge_node_pairs(rows).slow_links
    once = [r if (r.first, r.second) != ("n0", "n2") else node_pair(0, 2, 1.0, 5 * GB, 10 * GB) for r in rows]
    assert judge_node_pairs(once).slow_links == ()


def swept(rows: list[NodePair], launches: int = 2) -> Sweep:
    pairs = [PairCalls(nodes=(row.second, row.first), nbytes=row.nbytes, seconds=[row.seconds] * 3) for row in rows]
    one = Launch(
        made_utc="", ranks=[], calls=[Calls(collective="all_reduce", nbytes=4096, seconds=[1e-4])], pairs=pairs
    )
    return Sweep(nodes=4, devices_per_node=1, backend="gloo", device="cpu", launches=[one] * launches)


def test_findings_name_the_node_or_the_link_and_nothing_else():
    (node,) = nodes_reach_each_other_equally(swept(network(4, slow=(1,))))
    assert node.code == "node-slow"
    assert node.evidence.startswith("n1 reaches")
    assert links_between_nodes_are_equal(swept(network(4, slow=(1,)))) == []
    (link,) = links_between_nodes_are_equal(swept(network(4, slow=((1, 3),))))
    assert link.code == "link-slow"
    assert "n1 and n3" in link.evidence
    for sound in (swept(network(4)), swept(network(3, slow=(0,))), swept([])):
        assert nodes_reach_each_other_equally(sound) == []
        assert links_between_nodes_are_equal(sound) == []


def test_table_map_and_list_are_written_and_go_with_the_pairs(tmp_path):
    sweep = swept(network(4, slow=(1,)))
    assert pair_rows(sweep)[0].bus_bytes_per_s == pytest.approx(5 * GB, rel=0.1)
    write_node_pairs(sweep, tmp_path)
    assert (tmp_path / "exclude.txt").read_text() == "n1\n"
    assert len((tmp_path / "node_pairs.csv").read_text().splitlines()) == 1 + 6
    draw_node_pairs(pair_rows(sweep), tmp_path)
    assert "bus bandwidth" in (tmp_path / "node_pairs.svg").read_text()
    assert "node-slow: n1 reaches" in sweep_text(sweep)
    assert "2 nodes: from 4 on" in sweep_text(swept(network(2)))
    write_node_pairs(swept([]), tmp_path)
    assert not (tmp_path / "exclude.txt").exists()
    assert "between two nodes" not in sweep_text(swept([]))


def test_real_ranks_on_four_nodes_measure_every_pair_once(tmp_path):
    program = Path(__file__).parent / "four_nodes.py"
    subprocess.run([sys.executable, str(program), str(tmp_path)], check=True, timeout=HANGS)
    pairs = [pair for rank in range(4) for pair in json.loads((tmp_path / f"{rank}.json").read_text())]
    names = [f"n{i}" for i in range(1, 5)]
    assert sorted(tuple(pair["nodes"]) for pair in pairs) == list(combinations(names, 2))
    assert all(len(pair["seconds"]) == 3 and min(pair["seconds"]) > 0 for pair in pairs)
    assert {pair["nbytes"] for pair in pairs} == {4096}
