# SPDX-License-Identifier: Apache-2.0
"""The answers of a real Kafka on file (answers.json): what each case of diff.py was told, made plain, an answer a line.

diff.py --record writes them, diff.py --against compares Weir with them. They hold for one version of Kafka, and for the settings it was
started with.
"""

import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "answers.json")
SAME = "same as in version"
SHORT = 40  # an answer up to this length is written wherever it was given
COMMAND = "tests/peer/diff.py --record tests/peer/answers.json"


def kafka_version():
    """Of the Kafka that tests/peer/get gets."""
    with open(os.path.join(HERE, "pom.xml"), encoding="utf-8") as file:
        return re.search(r"<kafka\.version>(.*?)</kafka\.version>", file.read()).group(1)


def short(value):
    return json.dumps(value, separators=(",", ":"))


def head(settings):
    return {"licence": "SPDX-License-Identifier: Apache-2.0",
            "what": "What Apache Kafka answered to each case of tests/peer/diff.py, whose --record wrote this; not to be changed by hand.",
            "kafka": kafka_version(), "settings": {name: str(value) for name, value in settings.items()}}


def load(path):
    """(head, {case: [[api, version, answer]]}); nothing, when there is no such file."""
    if not os.path.exists(path):
        return {}, {}
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    cases = value.pop("cases")
    for name, said in cases.items():
        for step in said:
            if isinstance(step[2], dict) and list(step[2]) == [SAME]:
                version, number = step[2][SAME].split(" step ")
                step[2] = cases[f"{name.split()[0]} {version}"][int(number) - 1][2]
    return value, cases


def block(name, said, seen):
    """The lines of a case. What was answered before, in one of the case's versions, is named: seen, {(case, answer): where}."""
    script, version = name.split()
    lines = []
    for number, (api, of_version, answer) in enumerate(said, 1):
        text = short(answer)
        where = seen.setdefault((script, text), f"{version} step {number}")
        if where != f"{version} step {number}" and len(text) > SHORT:
            text = short({SAME: where})
        lines.append(f"   [{short(api)},{of_version},{text}]")
    return f"  {short(name)}: [\n" + ",\n".join(lines) + "\n  ]"


def save(path, settings, cases):
    heads = [f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head(settings).items()]
    seen = {}
    blocks = [block(name, said, seen) for name, said in cases.items()]
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write("{\n" + "".join(heads) + ' "cases": {\n' + ",\n".join(blocks) + "\n }\n}\n")
    os.replace(path + ".new", path)


def amiss(of, settings):
    """Why the answers of a file with this head say nothing about the Kafka that is to be compared with; or None."""
    if not of:
        return "there are none"
    for key, value in head(settings).items():
        if key != "what" and of.get(key) != value:
            return f"they were recorded with another {key}: {of.get(key)}, not {value}"
    return None
