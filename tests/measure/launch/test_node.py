"""What a node's launcher knows: whether the first node is still there."""

import socket

import pytest

from scaleproof.measure.launch import allocated


def test_a_daemon_that_answers(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(allocated, "ask_daemon_port", lambda: server.getsockname()[1])
        assert allocated.node_answers("127.0.0.1")


@pytest.mark.fault("the first node of a run is lost", "another node notices, and cancels the job")
def test_a_node_that_is_gone(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(allocated, "ask_daemon_port", lambda: port)
    monkeypatch.setattr(allocated.time, "sleep", lambda seconds: None)
    assert not allocated.node_answers("127.0.0.1")
