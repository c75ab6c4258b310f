"""`scaleproof forecast --from`: series of rates that somebody has."""

import pytest

from scaleproof.cli import main
from scaleproof.conclude.forecast.table_forecast import forecast_rates, table_text


def test_each_series_is_forecast_at_twice_and_four_times():
    made = forecast_rates({"A": {8: [10_000], 16: [9_500]}, "B": {8: [125]}}, (), devices_per_node=8)
    assert [(f.series, f.devices) for f in made] == [("A", 32), ("A", 64), ("B", 16), ("B", 32)]
    first = made[0].rate
    assert first.low < first.likely[0] < first.value < first.likely[1] < first.high
    assert 9500 * 0.95 < first.value / 32 < 9500
    assert "public tables" in table_text(made)


def test_asked_sizes():
    made = forecast_rates({"": {1: [100], 2: [98]}}, (4, 2, 64), devices_per_node=8)
    assert made[0].rate.value == pytest.approx(4 * 98 * (0.98**0.5))
    assert made[1].rate is None
    assert "The table has it" in table_text(made)
    assert "more than 8 times the 2" in made[2].refusal


def test_repeats_of_a_size_are_averaged_and_widen_the_interval():
    steady, noisy = (
        forecast_rates({"": {1: [100], 2: rates}}, (4,), devices_per_node=8)[0].rate
        for rates in ([95.0], [76.0, 118.75])
    )
    assert noisy.value == pytest.approx(steady.value)
    assert noisy.half_width > steady.half_width


def test_the_command_takes_a_campaign_or_a_table(tmp_path, monkeypatch, capsys):
    path = tmp_path / "scaling.csv"
    path.write_text("gpus,tokens/s\n8,100\n16,190\n")
    monkeypatch.setattr("sys.argv", ["scaleproof", "forecast", "--from", str(path), "--devices", "32"])
    main()
    assert " 32 " in capsys.readouterr().out
    for words in ([], ["config/campaigns/demo.yaml", "--from", str(path)]):
        monkeypatch.setattr("sys.argv", ["scaleproof", "forecast", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
