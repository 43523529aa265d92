"""The first process of a run's pod, as text: it unpacks the runtime and waits for the run's end.

It runs in the image's own Python (3.9 or newer, standard library only). A SIGTERM, whoever sent it
(an eviction, a drain, a deletion), becomes a notice to the run. What the run leaves is brought home
by the server; in case nobody comes, its end is written where the kubelet keeps it.
"""

HOME = "/stellwerk/home"
PARTS = "/stellwerk/parts"
BRING_HOME_S = 20
"""How long an ended run waits, after SIGTERM, until the server has read what it left."""
TOO_OLD = 66

TEXT = r"""
import sys
if sys.version_info < (3, 9):
    sys.exit(66)
import gzip, json, os, signal, socket, time
home, parts, run, generation, grace_ms, digest, bring_s = sys.argv[1:8]
root = os.path.join(home, "runtime")
build = os.path.join(root, "runtime-%s.pyz" % digest)
record = os.path.join(root, "runs", run, "ended.json")
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.monotonic()))
os.makedirs(root, mode=0o700, exist_ok=True)
with gzip.open(os.path.join(parts, "runtime"), "rb") as packed, open(build + ".new", "wb") as file:
    file.write(packed.read())
os.rename(build + ".new", build)
def notice():
    agent = os.path.join(root, "agent.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(5)
        link.connect(agent)
        link.sendall(json.dumps({"id": 1, "op": "stop", "run": run, "generation": int(generation),
            "why": "preempt", "grace_ms": int(grace_ms), "epoch": None}).encode() + b"\n")
        link.recv(65536)
def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
given = False
while True:
    reap()
    over = os.path.exists(record)
    waited = time.monotonic() - told[0] if told else 0
    if told and over and (not given or waited > float(bring_s) + int(grace_ms) / 1000):
        break
    if told and not over and not given:
        if not os.path.exists(os.path.join(root, "runs", run)):
            sys.exit(0)
        given = True
        try:
            notice()
        except OSError:
            pass
    if len(told) > 1 and over:
        break
    time.sleep(0.05)
try:
    with open(record, "rb") as file, open("/dev/termination-log", "wb") as kept:
        said = file.read()
        kept.write(said if len(said) < 4000 else b"")
except OSError:
    pass
"""
