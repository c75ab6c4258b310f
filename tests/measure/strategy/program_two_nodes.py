"""As program_matrix, but every two ranks believe that they are on a node of their own."""

import os
import runpy
import socket

if __name__ == "__main__":
    node = int(os.environ["RANK"]) // 2
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    socket.gethostname = lambda: f"node{node}"
    runpy.run_module("program_matrix", run_name="__main__")
