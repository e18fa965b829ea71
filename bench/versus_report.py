"""From the samples of a comparison to its rows and its tables in Markdown.

Owns: medians, ratios, fractions and the text. Must not know: how anything was run.

A sample is {"comparison", "engine", "label", "threads", "round", "test", "rate", "read_gb_per_s", "dot_gmac_per_s"}: tokens per
second of one run, with what memory gave to plain reads right before and after, and what int8 dot products the machine did, both
with the same number of threads (None where it is unknown). The costs are {comparison: {(engine, label): {"bytes_per_token",
"macs_per_token", ...}}}.
"""

import dataclasses
import statistics

ORK, PEERS = "ork", ("llama.cpp", "ik_llama.cpp")
TESTS = {"tg": "Decoding", "pp": "Prompt"}


@dataclasses.dataclass
class Ratio:
    median: float
    lowest: float
    highest: float
    scaled: bool = False

    def text(self):
        return f"**{self.median:.2f}** ({self.lowest:.2f} to {self.highest:.2f})" + ("*" if self.scaled else "")


@dataclasses.dataclass
class Row:
    comparison: str
    test: str
    threads: int
    engine: str
    label: str
    rounds: int = 0
    rate: float = None             # tokens per second, the median of rounds
    rate_lowest: float = None
    rate_highest: float = None
    cost: float = None             # bytes, or multiply-accumulates, for a token
    per_second: float = None       # 10^9 of them
    limit: float = None            # 10^9 of them that the machine gave, the median of rounds
    fraction: float = None
    scaled: bool = False           # from the stand-in
    missing: str = ""
    ratios: dict = dataclasses.field(default_factory=dict)  # {peer: Ratio}


def cost_name(test):
    return "bytes_per_token" if test == "tg" else "macs_per_token"


def by_round(samples, comparison, engine, threads, test):
    """{label: {round: sample}}"""
    result = {}
    for sample in samples:
        if (sample["comparison"], sample["engine"], sample["threads"], sample["test"]) == (comparison, engine, threads, test):
            result.setdefault(sample["label"], {})[sample["round"]] = sample
    return result


def measured_row(comparison, test, threads, engine, label, rounds, cost):
    limit_key = "read_gb_per_s" if test == "tg" else "dot_gmac_per_s"
    rates = [sample["rate"] for sample in rounds.values()]
    limits = [sample[limit_key] for sample in rounds.values() if sample[limit_key]]
    fractions = [sample["rate"] * cost / 1e9 / sample[limit_key] for sample in rounds.values() if sample[limit_key]]
    return Row(comparison, test, threads, engine, label, len(rates), statistics.median(rates), min(rates), max(rates), cost,
               statistics.median(rates) * cost / 1e9, statistics.median(limits) if limits else None,
               statistics.median(fractions) if fractions else None)


def fastest(found):
    """(label, {round: sample}) of the way with the best median."""
    return max(found.items(), key=lambda item: statistics.median(sample["rate"] for sample in item[1].values()))


def stand_in_rounds(samples, costs, comparison, peer, threads, test):
    """(label, {round: rate}) of a peer on the model that stands in, as if it cost what this one does in the peer's file type."""
    found = by_round(samples, comparison.stand_in, peer, threads, test)
    if not found:
        return None
    label, rounds = fastest(found)
    theirs = costs[comparison.stand_in][peer, label][cost_name(test)]
    kind = label.split(",")[0]
    own = [cost for (engine, name), cost in costs[comparison.name].items()
           if engine != ORK and name.split(",")[0] == kind]
    if not own:
        return None
    factor = theirs / own[0][cost_name(test)]
    return label, {number: {**sample, "rate": sample["rate"] * factor} for number, sample in rounds.items()}, \
        own[0][cost_name(test)]


def ratio(ours, theirs, scaled):
    ratios = [ours[number]["rate"] / theirs[number]["rate"] for number in ours if number in theirs]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios), scaled) if ratios else None


def rows_of_group(samples, costs, missing, comparison, threads, test):
    """Rows of one comparison, thread count and test: peers first, then ork's tiers with their ratios."""
    rows, peers = [], {}
    for peer in PEERS:
        found, scaled = by_round(samples, comparison.name, peer, threads, test), False
        if found:
            label, rounds = fastest(found)
            cost = costs[comparison.name][peer, label][cost_name(test)]
        elif comparison.stand_in and (stand_in := stand_in_rounds(samples, costs, comparison, peer, threads, test)):
            (label, rounds, cost), scaled = stand_in, True
        else:
            reason = missing.get((comparison.name, peer, threads))
            if reason:
                rows.append(Row(comparison.name, test, threads, peer, "", missing=reason))
            continue
        peers[peer] = rounds, scaled
        rows.append(measured_row(comparison.name, test, threads, peer, label, rounds, cost))
        rows[-1].scaled = scaled
    for label, rounds in by_round(samples, comparison.name, ORK, threads, test).items():
        row = measured_row(comparison.name, test, threads, ORK, label, rounds,
                           costs[comparison.name][ORK, label][cost_name(test)])
        row.ratios = {peer: found for peer, (theirs, scaled) in peers.items() if (found := ratio(rounds, theirs, scaled))}
        rows.append(row)
    for (name, engine, count), reason in missing.items():
        if (name, count) == (comparison.name, threads) and engine.startswith(ORK + " "):
            rows.append(Row(comparison.name, test, threads, ORK, engine.removeprefix(ORK + " "), missing=reason))
    return rows


def rows_of(samples, costs, missing, comparisons, threads):
    return [row for test in TESTS for comparison in comparisons for count in threads
            for row in rows_of_group(samples, costs, missing, comparison, count, test)]


def number(value, form):
    return "" if value is None else format(value, form)


def line(row, title):
    name = f"{row.engine} {row.label}".strip() + ("*" if row.scaled else "")
    if row.missing:
        return f"| {title} | {row.threads} | {name} | missing: {row.missing} | | | | | |"
    spread = f" ({row.rate_lowest:.4g} to {row.rate_highest:.4g})" if row.rounds > 1 else ""
    scale = 1e6
    against = " | ".join(row.ratios[peer].text() if peer in row.ratios else "" for peer in PEERS)
    return (f"| {title} | {row.threads} | {name} | {row.rate:.4g}{spread} | {row.cost / scale:.4g} | "
            f"{number(row.per_second, '.3g')} | {number(row.fraction, '.0%')} | {against} |")


def table(rows, test, titles):
    unit = ("MB a token", "GB/s", "of the read ceiling") if test == "tg" else ("MMAC a token", "GMAC/s", "of the int8 peak")
    lines = [f"| model | threads | engine | tokens/s | {unit[0]} | {unit[1]} | {unit[2]} | ork / llama.cpp | ork / ik_llama.cpp |",
             "|---|---:|---|---:|---:|---:|---:|---:|---:|"]
    return lines + [line(row, titles[row.comparison]) for row in rows if row.test == test]


def limits_line(samples, threads):
    parts = []
    for count in threads:
        for key, what, unit in (("read_gb_per_s", "plain reads", "GB/s"), ("dot_gmac_per_s", "int8 dot products", "GMAC/s")):
            found = [sample[key] for sample in samples if sample["threads"] == count and sample[key]]
            if found:
                parts.append(f"{count} thread{'s' if count > 1 else ''}: {what} {statistics.median(found):.0f} {unit} "
                             f"({min(found):.0f} to {max(found):.0f})")
    return "What the machine gave during the run, median (lowest to highest): " + "; ".join(parts) + "."


def counts_line(rows):
    counts = sorted({row.rounds for row in rows if not row.missing})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}" if counts else "0"


def failed_ways(trials):
    """Sentences about the peers' file types and modes that did not run."""
    failed = sorted({f"{name.split(', ')[1]} with {name.split(', ')[0]} as {trial['plan'].upper() or 'it is'}, {trial['mode']}"
                     for name, found in trials.items() for trial in found if "error" in trial})
    return ["Ways that ended in an error and so were not taken: " + "; ".join(failed) + ".", ""] if failed else []


def document(settings, machine_line, peers, samples, rows, titles, trials, plot):
    """The block of docs/performance.md. `settings`: command, prompt, threads, minutes."""
    lines = [
        f"Measured by `{settings['command']}` in {settings['minutes']:.0f} minutes: {counts_line(rows)} rounds, in each of which "
        f"every engine runs once for a model and thread count, one after the other; medians (lowest to highest round), and a ratio "
        f"is the median of the rounds' ratios. Tests are llama-bench's: a prompt of {settings['prompt']} tokens, and the "
        "generation of tokens one by one. Each peer runs in the fastest of its file types and modes, found in short runs before; "
        "the table names them. " + (", ".join(f"{name} {what}" for name, what in peers.items()) + ", native builds." if peers
                                    else "No peer is there."), "",
        machine_line + ".", "", limits_line(samples, settings["threads"]), ""]
    for test, title in TESTS.items():
        if any(row.test == test for row in rows):
            lines += [f"**{title}.**", "", *table(rows, test, titles), ""]
    if any(row.scaled for row in rows):
        lines += ["\\* ik_llama.cpp has no LFM2 architecture. Its figure is the one of the same experts in a Qwen3 graph (rows of that "
                  "model), scaled by the bytes (decoding) or multiply-accumulates (prompt) that a token takes in either.", ""]
    disturbed = [sample for sample in samples if sample.get("others_cores", 0) > settings["others_max"]]
    lines += [f"A run during which other programs kept more than {settings['others_max']} cores busy was made once more, and the less "
              f"disturbed one counts; {len(disturbed)} of {len(samples)} figures are from runs that were disturbed even so.", ""]
    lines += failed_ways(trials)
    lines += ["The read ceiling and the int8 peak are what plain reads and dot products gave between the same runs with as many "
              "threads. Multiply-accumulates count the layers' matrices alone, without attention scores and the output head."]
    if plot:
        lines += ["", f"![Tokens per second against bytes per token]({plot})"]
    return "\n".join(lines)
