"""`scaleproof forecast --from table.csv`."""

import pytest

from scaleproof.cli import main
from scaleproof.conclude.forecast.table_forecast import forecast_table, table_text
from scaleproof.ground.errors import UserError


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "scaling.csv"

    def write(text: str):
        path.write_text(text)
        return path

    return write


def test_series_are_told_apart_and_forecast_at_twice_and_four_times(table):
    path = table('model,GPUs,tokens/s\nA,8,"80,000 tok/s"\nA,16,152000\nB,8,1000\n')
    made = forecast_table(path, (), devices_per_node=8)
    assert [(f.series, f.devices) for f in made] == [("A", 32), ("A", 64), ("B", 16), ("B", 32)]
    first = made[0].rate
    assert first.low < first.likely[0] < first.value < first.likely[1] < first.high
    assert 9500 * 0.95 < first.value / 32 < 9500
    assert "public tables" in table_text(made)


def test_rates_of_one_device_and_asked_sizes(table):
    made = forecast_table(table("devices,tokens/s/device\n1,100\n2,98\n"), (4, 2, 64), devices_per_node=8)
    assert made[0].rate.value == pytest.approx(4 * 98 * (0.98**0.5))
    assert made[1].rate is None
    assert "The table has it" in table_text(made)
    assert "more than 8 times the 2" in made[2].refusal


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus,rate\n1,2\n", "no column of rates"),
        ("tokens/s\n1\n", "no column of devices"),
        ("gpus,tokens/s,samples/s\n1,2,3\n", "2 columns of rates"),
        ("gpus,tokens/s\n1,many\n", 'line 2: "many" is no number above 0'),
        ("gpus,tokens/s\n1\n", "line 2: 1 fields, 2 headings"),
        ("gpus,tokens/s\n", "no row below its headings"),
    ],
)
def test_another_table_is_refused_with_what_is_wrong(table, text, message):
    with pytest.raises(UserError, match=message):
        forecast_table(table(text), (), 8)


def test_the_command_takes_a_campaign_or_a_table(table, monkeypatch, capsys):
    path = table("gpus,tokens/s\n8,100\n16,190\n")
    monkeypatch.setattr("sys.argv", ["scaleproof", "forecast", "--from", str(path), "--devices", "32"])
    main()
    assert " 32 " in capsys.readouterr().out
    for words in ([], ["config/campaigns/demo.yaml", "--from", str(path)]):
        monkeypatch.setattr("sys.argv", ["scaleproof", "forecast", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
