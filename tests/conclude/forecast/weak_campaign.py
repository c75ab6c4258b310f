"""A campaign of weak scaling whose runs take known times."""

from synthetic import write_run

from scaleproof.conclude.forecast.campaign_forecast import ForecastEvidence, read_measured
from scaleproof.ground.campaign.loaded import LoadedCampaign

WEAK = """
title: What will four devices give?
work: {{global_batch: derive, micro_batch: 8, steps: 30, warmup_steps: 5}}
execution: {{threads_per_device: 1}}
vary: {{strategy: [ddp, fsdp], geometry: [1x1, 1x2, 1x4]}}
forecast: {forecast}
repeats: 2
"""
COMMUNICATION = {1: 0.0, 2: 0.010, 4: 0.0155}  # seconds: by the ring's factor 0.010 x 1.5, and a little


def loaded(tmp_path, forecast: str = "{hold_out: [1x4]}") -> LoadedCampaign:
    path = tmp_path / "weak.yaml"
    path.write_text(WEAK.format(forecast=forecast))
    return LoadedCampaign(path)


def make_runs(made: LoadedCampaign, results, sizes=(1, 2), slower=None) -> None:
    for cell in made.cells:
        n = cell.execution.geometry.n_devices
        if n in sizes:
            own = 0.1 * (1.1 if cell.execution.strategy == "fsdp" else 1.0)
            seconds = (own + COMMUNICATION[n]) * (slower or {}).get(cell.slug, 1.0)
            for repeat in (1, 2):
                write_run(results / made.name / "runs", cell, repeat, step_time=seconds, spread=0.003)


def evidence(made: LoadedCampaign, results, findings=None, sweeps=(), ledger=()) -> ForecastEvidence:
    return ForecastEvidence(made, read_measured(made, results), findings, list(sweeps), list(ledger))
