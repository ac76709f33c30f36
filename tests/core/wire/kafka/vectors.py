# vectors.py PROGRAM: what PROGRAM (vectors.c) encodes, Kafka's own classes must read and write again, byte for byte.
#
# SPDX-License-Identifier: Apache-2.0
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
path = os.path.join(HERE, "..", "..", "..", "..", "ci", "schema")
loader = importlib.machinery.SourceFileLoader("schema", path)
schema = importlib.util.module_from_spec(importlib.util.spec_from_loader("schema", loader))
loader.exec_module(schema)

with tempfile.TemporaryDirectory() as folder:
    artifacts = schema.ARTIFACTS + ["org.apache.kafka:kafka-server-common:" + schema.KAFKA, schema.SLF4J]
    jars = schema.fetch(artifacts, folder)
    vectors = os.path.join(folder, "vectors.txt")
    with open(vectors, "w") as out:
        subprocess.run([sys.argv[1], "40"], stdout=out, check=True)
    with open(vectors) as lines:
        sys.exit(subprocess.run(["java", "-cp", os.pathsep.join(jars), os.path.join(HERE, "CheckVectors.java")],
                                stdin=lines).returncode)
