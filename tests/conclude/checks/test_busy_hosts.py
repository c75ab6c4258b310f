"""Other programs on a host disturb the ranks of that host alone."""

from explained_findings import codes
from sound_records import sealed


def test_what_others_take_on_one_host_is_no_fault_of_another(sound):
    def change(data):
        first, second = data["ranks"]
        second["host"] = "elsewhere"
        first["machine_busy_s"] = first["cpu_s"] + 8
        second["cores_busy_s"] += 0.3
        second["run_delay_s"] += 0.3
        second["machine_busy_s"] = second["cpu_s"] + 0.3

    assert codes([*sound[:-1], sealed(sound[-1], change)]).get("machine-busy") == "note"
