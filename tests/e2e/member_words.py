# SPDX-License-Identifier: Apache-2.0
"""What the members of groups in Python share: what they say is told in member_confluent.py."""

import os
import sys
import threading

SESSION_MS = int(os.environ.get("WEIR_SESSION_MS") or 10000)


def say(words):
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def say_moved(word, partitions):
    say(f"{word} " + ",".join(sorted(str(p.partition) for p in partitions)))


def end_of_input():
    """An event that is set when standard input says something or ends."""
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(1), ends.set()), daemon=True).start()
    return ends
