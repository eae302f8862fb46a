"""Somebody who has not the job's key talks to a process: stranger.py PID TIMES

Finds the TCP port that it listens at, says nonsense there, and waits until it closes the connection, each time.
"""
import os
import random
import socket
import sys


def port_of(pid):
    own = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            own.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass  # closed meanwhile
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                    return int(fields[1].rsplit(":", 1)[1], 16)
    sys.exit(f"process {pid} listens nowhere")


def talk(port, words):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as stream:
        try:
            stream.sendall(words)
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(4096):
                pass
        except TimeoutError:
            raise
        except OSError:
            pass  # closed before all was said: that is a way to do it, too


port = port_of(sys.argv[1])
chance = random.Random(7)
for _ in range(int(sys.argv[2])):
    talk(port, chance.randbytes(512))
    talk(port, b"GET / HTTP/1.0\r\n\r\n")
