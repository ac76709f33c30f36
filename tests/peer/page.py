#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/KAFKA.md names only what there is: cases of this folder, error codes, and the wanted differences, all of them.

tests/peer/page.py          says what is wrong
tests/peer/page.py --fix    writes the table of wanted differences anew
"""

import ast
import os
import re
import sys

sys.dont_write_bytecode = True
import wanted  # noqa: E402  pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
PAGE = os.path.join(ROOT, "docs", "KAFKA.md")
ERRORS = os.path.join(ROOT, "src", "core", "wire", "kafka", "schema", "errors.schema")
MARK = "<!-- wanted -->\n"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def table():
    """The lines of wanted.py, as the page has them."""
    rows = ["| API | field | where | why |", "| --- | --- | --- | --- |"]
    for api, field, why, *where in wanted.WANTED:
        rows.append(f"| {api.replace('*', 'any')} | `{field}` | {f'`{where[0]}`' if where else 'everywhere'} | {why} |")
    return "\n" + "\n".join(rows) + "\n"


def cases():
    """file:case, of all that are decorated as one."""
    out = set()
    for name in os.listdir(HERE):
        if name.startswith("cases_") and name.endswith(".py"):
            for node in ast.parse(read(os.path.join(HERE, name))).body:
                if isinstance(node, ast.FunctionDef) and any(isinstance(d, ast.Call) and d.func.id == "case" for d in node.decorator_list):
                    out.add(f"{name[6:-3]}:{node.name}")
    return out


def amiss(text):
    known = cases()
    named = re.findall(r"`([a-z]+:[a-z_0-9]+)`", text)
    lines = [f"there is no case {name}" for name in named if name not in known]
    codes = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", read(ERRORS)))
    lines += [f"no error code is called {word}" for word in sorted(set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", text.split(MARK)[0])) - codes)]
    if text.partition(MARK)[2] != table():
        lines.append("its table is not that of wanted.py: tests/peer/page.py --fix")
    return lines if named else ["it names no case"]


def main():
    text = read(PAGE)
    if sys.argv[1:] == ["--fix"]:
        text = text.partition(MARK)[0] + MARK + table()
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(text)
    lines = amiss(text)
    for line in lines:
        print(f"docs/KAFKA.md: {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
