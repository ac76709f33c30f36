# SPDX-License-Identifier: Apache-2.0
"""A copy of the tree that mistakes are planted in, for ci/mutants and ci/fuzz."""
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def patch(tree, path, *options):
    command = ["patch", "-p1", "--batch", "--forward", "--silent", "--no-backup-if-mismatch", *options, "-i", str(path)]
    return subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def sync(tree, parts):
    """`tree` has what git knows, or would take, of these parts of ROOT, and besides them its build folder alone.
    Files that are the same keep their times, so that little is built again."""
    listed = subprocess.run(["git", "ls-files", "-z", "-c", "-o", "--exclude-standard", "--", *parts], cwd=ROOT,
                            stdout=subprocess.PIPE, check=True)
    wanted = {name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()}
    tree.mkdir(parents=True, exist_ok=True)
    for top in tree.iterdir():
        for at in [] if top.name == "build" else sorted([top, *top.rglob("*")]):
            if at.is_file() and str(at.relative_to(tree)) not in wanted:
                at.unlink()
    for name in wanted:
        source, target = ROOT / name, tree / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
