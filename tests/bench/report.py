# SPDX-License-Identifier: Apache-2.0
"""One table: as text, as JSON, as Markdown for docs/PERFORMANCE.md, and as a picture (SVG)."""

import json
import math
import os
import statistics


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def number(value):
    """Three figures that count."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = max(0, 2 - int(math.floor(math.log10(abs(value)))))
    return f"{value:,.{digits}f}"


def judge(better, value, limit):
    """How far the goal is met: 1 and more is met, 0.8 is a fifth short."""
    if value <= 0:
        return 0.0
    return value / limit if better == "more" else limit / value


def result_of(case, figure, values):
    """values: {arm: [a value for each run]}, those of the first arm with one more, so that each other run lies between two of its own."""
    first = case.arms[0].label
    out = {"row": case.row, "case": case.name, "durability": {True: "durable", False: "page cache", None: ""}[case.is_durable],
           "generator": case.generator, "figure": figure.label, "unit": figure.unit, "better": figure.better,
           "arms": {label: spread(runs) for label, runs in values.items() if runs}, "ratios": {}, "no_ratio": {},
           "goals": []}
    own = values[first]
    for label, runs in values.items():
        if label == first:
            continue
        why = ("not measured" if not runs else f"a run of {label} gave 0" if any(value == 0 for value in runs) else
               f"a run of {first} gave 0" if any(value == 0 for value in own) else "")
        if why:
            out["no_ratio"][label] = why
        else:
            out["ratios"][label] = spread([(own[i] + own[i + 1]) / 2 / runs[i] for i in range(len(runs))])
    for label, limit in figure.goals:
        value = out["arms"][first]["median"] if label == "" else out["ratios"].get(label, {}).get("median")
        if value is None:
            out["no_ratio"].setdefault(label, "left out")
        out["goals"].append({"of": label, "limit": limit, "value": value, "met": None if value is None else judge(figure.better, value, limit)})
    return out


def goal_text(result, goal):
    sign = ">=" if result["better"] == "more" else "<="
    of = f" x {goal['of']}" if goal["of"] else f" {result['unit']}"
    short = f": no ratio, {result['no_ratio'][goal['of']]}" if goal["met"] is None else "" if goal["met"] >= 1 else " SHORT" if goal["met"] < 0.8 else " nearly"
    return f"{sign} {number(goal['limit'])}{of}{short}"


def ratio_text(ratio):
    return f"{number(ratio['median'])} ({number(ratio['low'])}-{number(ratio['high'])})"


def ratio_of(result, label):
    """A ratio, or why there is none where one is due."""
    why = result["no_ratio"].get(label)
    return ratio_text(result["ratios"][label]) if label in result["ratios"] else f"no ratio: {why}" if why else ""


def warm_text(label, warm):
    return (f"{label} warmed by {warm['runs']} runs" if warm["is_warm"] else
            f"{label} not warm after {warm['runs']} runs: the last two differed by {warm['change']:.0%}".replace("%", " %"))


def conditions_text(result):
    """How far the machine was ours, and whether Kafka was warm."""
    said = [] if result.get("others") is None else [f"others used {number(result['others'])} cores meanwhile"]
    said += [warm_text(label, warm) for label, warm in result.get("warm", {}).items()]
    return f"   ({'; '.join(said)})" if said else ""


def text(results, about):
    lines = [f"{key}: {value}" for key, value in about.items()]
    lines.append("Values are medians; ratios are of Weir to the other, median (lowest-highest) over the pairs. 'nearly': within a fifth of the goal.")
    head = None
    for result in results:
        here = f"row {result['row']}: {result['case']}" + (f", {result['durability']}" if result["durability"] else "") + f" [{result['generator']}]"
        if here != head:
            lines += ["", here, f"    {result['command']}, at {result['commit']}, {result['when'][:10]}{conditions_text(result)}"]
            head = here
        arms = "  ".join(f"{label} {number(value['median'])}" for label, value in result["arms"].items())
        ratios = "  ".join(f"/{label} {ratio_of(result, label)}" for label in (*result["ratios"], *result["no_ratio"]))
        goals = "; ".join(goal_text(result, goal) for goal in result["goals"])
        lines.append(f"    {result['figure'] + ', ' + result['unit']:<30} {arms:<52} {ratios:<52} {goals}".rstrip())
    return "\n".join(lines) + "\n"


def markdown(results):
    """For docs/PERFORMANCE.md: a table for each row, and for each way and day in which it was measured."""
    lines, head, last = [], None, None
    for result in results:
        here = f"### Row {result['row']}: `{result['row_command']}`, at {result['commit']}, {result['when'][:10]}"
        if here != head:
            head, last = here, None
            lines += ["", here, "",
                      "| case | figure | Weir | Kafka | ideal | other | / Kafka | / ideal | / other | goal |",
                      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
        labels = list(result["arms"])
        others = [label for label in labels[1:] if label not in ("kafka", "ideal")]

        def arm(label):
            return number(result["arms"][label]["median"]) if label in result["arms"] else ""

        goals = "; ".join(goal_text(result, goal) for goal in result["goals"])
        case = result["case"] + (f", {result['durability']}" if result["durability"] else "") + f" ({result['generator']}){conditions_text(result).rstrip()}"
        case, last = ("" if case == last else case), case
        lines.append(f"| {case} | {result['figure']}, {result['unit']} | {arm(labels[0])} | {arm('kafka')} | {arm('ideal')} | "
                     f"{'; '.join(f'{arm(other)} ({other})' for other in others)} | {ratio_of(result, 'kafka')} | {ratio_of(result, 'ideal')} | "
                     f"{'; '.join(ratio_of(result, other) for other in others)} | {goals} |")
    return "\n".join(lines) + "\n"


def picture(results):
    """A bar for each goal: how far it is met, on a scale of powers of two around 1."""
    bars = [(result, goal) for result in results for goal in result["goals"] if goal["met"] is not None]
    left, wide, high, octaves = 560, 420, 18, 4
    middle = left + wide / 2

    def x(met):
        return middle + max(-octaves, min(octaves, math.log2(max(met, 1e-6)))) * wide / 2 / octaves

    height = 50 + high * len(bars)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 190}" height="{height}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="16">how far each goal is met (right of the line: met)</text>']
    for octave in range(-octaves, octaves + 1):
        at = x(2.0 ** octave)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="32" y2="{height - 8}" stroke="{"black" if octave == 0 else "#ddd"}"/>')
        out.append(f'<text x="{at:.1f}" y="29" text-anchor="middle">{number(2.0 ** octave)}</text>')
    for i, (result, goal) in enumerate(bars):
        y = 38 + i * high
        name = f"{result['row']}: {result['case']}, {result['durability']}, {result['figure']} [{result['generator']}]"
        name = name.replace("&", "&amp;").replace("<", "&lt;")
        color = "#3a7" if goal["met"] >= 1 else "#da3" if goal["met"] >= 0.8 else "#c43"
        begin, end = sorted((middle, x(goal["met"])))
        out.append(f'<text x="{left - 6}" y="{y + 11}" text-anchor="end">{name}</text>')
        out.append(f'<rect x="{begin:.1f}" y="{y + 2}" width="{max(1.0, end - begin):.1f}" height="{high - 5}" fill="{color}"/>')
        ratio = result["ratios"].get(goal["of"])
        if ratio:
            ends = [x(judge(result["better"], max(ratio[key], 1e-9), goal["limit"])) for key in ("low", "high")]
            out.append(f'<line x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y + 8}" y2="{y + 8}" stroke="black"/>')
        out.append(f'<text x="{left + wide + 6}" y="{y + 11}">{number(goal["value"])} ({goal_text(result, goal).replace(">", "&gt;").replace("<", "&lt;")})</text>')
    return "\n".join(out + ["</svg>", ""])


def write(folder, results, about):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "table.json"), "w", encoding="utf-8") as file:
        json.dump({"about": about, "results": results}, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "table.txt"), "w", encoding="utf-8") as file:
        file.write(text(results, about))
    with open(os.path.join(folder, "table.md"), "w", encoding="utf-8") as file:
        file.write(markdown(results))
    with open(os.path.join(folder, "table.svg"), "w", encoding="utf-8") as file:
        file.write(picture(results))


def read(folder):
    try:
        with open(os.path.join(folder, "table.json"), encoding="utf-8") as file:
            results = json.load(file)["results"]
    except FileNotFoundError:
        return []
    for result in results: # of before these were kept
        result.setdefault("no_ratio", {})
        result.setdefault("row_command", f"tests/bench/compare {result['row']}")
    return results
