# kmsg.py PROGRAM: what franz-go's messages (kmsg) write, PROGRAM (vectors.c) must read and write again, byte for byte; and the other way round.
#
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..", "..")
VALUES = "40"

program = sys.argv[1]
if "franz-go" in re.split(r"[ ,]+", os.environ.get("WEIR_E2E_SKIP", "")):
    sys.exit(77)
subprocess.run([os.path.join(ROOT, "tests", "peer", "get"), "go"], check=True)
codec = os.path.join(os.environ.get("WEIR_CLIENTS") or os.path.join(ROOT, "build", "clients"), "go", "bin", "codec")
seed = os.environ.get("WEIR_SEED") or str(int.from_bytes(os.urandom(4), "big"))
print(f"WEIR_SEED={seed}", flush=True)

code = 0
for write, check in (([codec, "write", VALUES, seed], [program, "--check"]), ([program, VALUES], [codec, "check"])):
    with subprocess.Popen(write, stdout=subprocess.PIPE) as writer:
        code |= subprocess.run(check, stdin=writer.stdout, check=False).returncode
    code |= writer.returncode
sys.exit(code)
