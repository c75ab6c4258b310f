"""The cluster that the other tests use: two nodes that differ, and that can be lost and come back."""

from patience import wait_until


def states(cluster) -> dict[str, str]:
    lines = cluster.run("sinfo", "-h", "-N", "-p", "cpu", "-o", "%N %T").stdout.split()
    return dict(zip(lines[::2], lines[1::2], strict=True))


def test_nodes_have_their_own_names_addresses_and_processes(cluster):
    script = "hostname; hostname -I | cut -d' ' -f1; ls -d /proc/[0-9]* | wc -l"
    done = cluster.run("srun", "-N2", "-n2", "--label", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert {"0: n1", "1: n2"} <= set(done.stdout.splitlines())
    assert "10.77.0.1" in done.stdout
    assert "10.77.0.2" in done.stdout


def test_a_node_can_be_asked_for_devices(cluster):
    done = cluster.run("srun", "-N2", "-n2", "--gres=gpu:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert done.stdout.split() == ["0,1", "0,1"]


def test_the_machine_itself_is_not_touched(cluster):
    from pathlib import Path

    assert not Path("/etc/slurm/gres.conf").exists()
    assert "10.77.0.1" not in Path("/etc/hosts").read_text()


def test_the_cluster_is_up(cluster):
    wait_until(lambda: set(states(cluster).values()) == {"idle"})
