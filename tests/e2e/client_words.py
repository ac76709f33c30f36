# SPDX-License-Identifier: Apache-2.0
"""The words of a helper client: one request a line on standard input, fields between tabs; the answer is rows, then 'ok' or
'error NAME MESSAGE'. Bytes are base64 with '=' before them, null is '-'.

  create TOPIC PARTITIONS K=V,...      delete TOPIC      topics      configs TOPIC      broker_configs
  produce TOPIC CODEC N                then N rows: partition, timestamp, key, value, headers (base64 name:value,...);
                                       answer N rows: partition, offset
  consume TOPIC PARTITION:END,... [WHERE]      by assignment; WHERE is beginning (if left out), offset:N or time:MS;
                                       rows: partition, offset, timestamp, key, value, headers

A client that has the call answers these too, any other says NO_SUCH_CALL:

  alter_configs TOPIC K=V,...          these alone                replace_configs TOPIC K=V,...    these, and no others
  add_partitions TOPIC COUNT           so many in all
  list_offsets TOPIC WHEN              earliest, latest, or of the first record at MS or later; rows: partition, offset
  delete_records TOPIC PARTITION:BEFORE,...
  groups      delete_group GROUP       group GROUP: its state and number of members, then member, instance, client, host of each
  committed GROUP TOPIC                rows: partition, offset
"""

import base64
import sys


class Failed(Exception):
    def __init__(self, name, message):
        super().__init__(message)
        self.name = name


def pack(data):
    return "-" if data is None else "=" + base64.b64encode(data).decode()


def unpack(text):
    return None if text == "-" else base64.b64decode(text[1:])


def read_record(line):
    partition, timestamp, key, value, headers = line.rstrip("\n").split("\t")
    pairs = [item.split(":") for item in headers.split(",") if item]
    return (int(partition), int(timestamp), unpack(key), unpack(value),
            [(base64.b64decode(n).decode(), unpack(v)) for n, v in pairs])


def configs_of(text):
    return dict(item.split("=", 1) for item in text.split(",") if item)


def offsets_of(text):
    return {int(p): int(offset) for p, offset in (item.split(":") for item in text.split(","))}


def optional(client, name, otherwise=None):
    call = getattr(client, name, otherwise)
    if call is None:
        raise Failed("NO_SUCH_CALL", name)
    return call


def answer(client, words):
    verb = words[0]
    if verb == "create":
        client.create(words[1], int(words[2]), configs_of(words[3]))
    elif verb == "delete":
        client.delete(words[1])
    elif verb == "topics":
        return [(topic,) for topic in client.topics()]
    elif verb == "configs":
        return sorted((k, "" if v is None else v) for k, v in client.configs(words[1]).items())
    elif verb == "broker_configs":
        return sorted((k, "" if v is None else v) for k, v in client.broker_configs().items())
    elif verb == "produce":
        records = [read_record(sys.stdin.readline()) for _ in range(int(words[3]))]
        return client.produce(words[1], words[2], records)
    elif verb == "consume":
        ends = {p: end for p, end in offsets_of(words[2]).items() if end > 0}
        kind, _, at = (words[3] if len(words) > 3 else "beginning").partition(":")
        rows = client.consume(words[1], ends, (kind, int(at or 0))) if ends else []
        return [(p, o, t, pack(k), pack(v), ",".join(f"{base64.b64encode(n.encode()).decode()}:{pack(x)}" for n, x in h))
                for p, o, t, k, v, h in rows]
    elif verb in ("alter_configs", "replace_configs"):
        optional(client, verb)(words[1], configs_of(words[2]))
    elif verb == "add_partitions":
        optional(client, verb)(words[1], int(words[2]))
    elif verb == "delete_records":
        optional(client, verb)(words[1], offsets_of(words[2]))
    elif verb == "delete_group":
        optional(client, verb)(words[1])
    elif verb in ("list_offsets", "committed"):
        return sorted(optional(client, verb)(words[1], words[2]).items())
    elif verb == "groups":
        return [(group,) for group in sorted(optional(client, verb)())]
    elif verb == "group":
        state, members = optional(client, verb)(words[1])
        return [(state, len(members)), *members]
    else:
        raise Failed("BAD_WORD", verb)
    return []


def serve(client):
    while True:
        line = sys.stdin.readline()
        if not line:
            break
        try:
            rows = answer(client, line.rstrip("\n").split("\t"))
            for row in rows:
                sys.stdout.write("\t".join(str(field).replace("\n", " ") for field in row) + "\n")
            sys.stdout.write("ok\n")
        except Exception as error:  # pylint: disable=broad-except
            named = (error.name, str(error)) if isinstance(error, Failed) else client.error_of(error)
            name, message = named or (type(error).__name__, str(error))
            sys.stdout.write(f"error\t{name}\t{message}\n".replace("\n", " ").rstrip() + "\n")
        sys.stdout.flush()
    optional(client, "close", lambda: None)()
