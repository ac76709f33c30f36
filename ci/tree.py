# SPDX-License-Identifier: Apache-2.0
"""A copy of the tree that mistakes are planted in, for ci/mutants and ci/fuzz."""
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def patch(tree, path, *options):
    command = ["patch", "-p1", "--batch", "--forward", "--silent", "--no-backup-if-mismatch", *options, "-i", str(path)]
    return subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def sync(tree, parts, but=()):
    """`tree` has what these parts of ROOT have, without the folders named in `but`, and besides them its build folder alone.
    Files that are the same keep their times, so that little is built again."""
    files = {at for part in parts for at in [ROOT / part, *(ROOT / part).rglob("*")] if at.is_file()}
    left_out = [ROOT / name for name in but]
    wanted = {str(at.relative_to(ROOT)) for at in files
              if "__pycache__" not in at.parts and not any(folder in at.parents for folder in left_out)}
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
