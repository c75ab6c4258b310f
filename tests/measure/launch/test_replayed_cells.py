"""Which workloads of a campaign are replayed."""

from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.measure.launch.replayed_cells import cells_by_workload

BUILT = """\
title: Two sizes of one workload, and another
workload: {model: gpt2-tiny, corpus: python-docs, tokenizer: bytes, seq_len: 64}
work: {global_batch: 8, steps: 4}
vary: {strategy: [ddp, zero1], geometry: [1x2, 1x1]}
cells: [{seq_len: 32, geometry: 1x2}]
"""
COMMAND = "title: mine\nworkload: {command: 'python train.py --dim {dim}'}\nvary: {dim: [1, 2], geometry: [1x1]}\n"


def test_a_workload_is_replayed_by_a_cell_with_the_fewest_devices_and_a_command_never(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(BUILT)
    cells = cells_by_workload(LoadedCampaign(path).cells).values()
    assert sorted(cell.execution.geometry.n_devices for cell in cells) == [1, 2]
    path.write_text(COMMAND)
    assert cells_by_workload(LoadedCampaign(path).cells) == {}
