"""The TCP port that a process listens at: listens.py PID"""
import os
import sys

pid = sys.argv[1]
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
                print(int(fields[1].rsplit(":", 1)[1], 16))
                sys.exit(0)
sys.exit(f"process {pid} listens nowhere")
