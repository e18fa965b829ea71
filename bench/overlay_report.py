"""The tables of bench/overlay_quality.py. Owns: their rows and how much of a gap counts as closed. Must not know: how anything is
measured.

Keys of results: ("i4",), (set, "base" | "full"), (set, "join", rate, seed), (set, "late", layers), ("coverage", order, percent);
"blocks" at the end: with the engine's default activation blocks. A result is (figures, the overlay's counts or None).
"""

NAMES = {"all": "all matrices but experts", "residual": "those that write the residual stream"}


def mean(values):
    values = list(values)
    return sum(values) / len(values)


class Table:
    """Rows against the base and the full codes of a set."""

    def __init__(self, results, name):
        self.results, self.lines = results, []
        self.base, self.full = (results[name, planes][0]["kld"] for planes in ("base", "full"))

    def add(self, label, keys):
        """One row of the mean over keys, nothing when none of them was measured."""
        found = [self.results[key] for key in keys if key in self.results]
        if not found:
            return
        divergences = [figures["kld"] for figures, _ in found]
        spread = f" ({min(divergences):.5f} to {max(divergences):.5f})" if len(found) > 1 else ""
        rates = [overlay["hit_rate"] for _, overlay in found if overlay]
        closed = (self.base - mean(divergences)) / (self.base - self.full)
        self.lines.append(f"| {label} | {f'{100 * mean(rates):.1f} %' if rates else ''} | "
                          f"{mean(figures['perplexity'] for figures, _ in found):.4f} | {mean(divergences):.5f}{spread} | "
                          f"{100 * mean(figures['same_top'] for figures, _ in found):.1f} % | {100 * closed:.0f} % |")


HEAD = ["| | chains in time | perplexity | KL divergence (seeds) | same top token | of the gap |", "|---|--:|--:|--:|--:|--:|"]


def seeds_in(results, name, rate):
    return sorted(key for key in results if key[:3] == (name, "join", rate))


def set_table(results, name):
    table = Table(results, name)
    if name == "all":
        table.add("CPU, set in `i4`", [("i4",)])
        table.add("CPU, set in `nf4`", [("nf4",)])
    table.add("CPU, base planes", [(name, "base")])
    for rate in sorted({key[2] for key in results if key[:2] == (name, "join") and isinstance(key[2], int)}):
        table.add(f"overlay, {rate} %", seeds_in(results, name, rate))
    table.add("CPU, both planes", [(name, "full")])
    for layers in sorted(key[2] for key in results if key[:2] == (name, "late")):
        table.add(f"late, {layers} layer{'s' if layers > 1 else ''}", [(name, "late", layers)])
    if name == "all":
        table.add("CPU, everything in `i8`", [("i8",)])
    return HEAD + table.lines


def blocks_table(results):
    if ("all", "base", "blocks") not in results:
        return []
    blocks = {key[:-1]: value for key, value in results.items() if key[-1] == "blocks"}
    table = Table(blocks, "all")
    for label, key in (("CPU, set in `i4`", ("i4",)), ("CPU, set in `nf4`", ("nf4",)), ("CPU, base planes", ("all", "base")),
                       ("overlay, 100 %", ("all", "join")), ("CPU, both planes", ("all", "full")),
                       ("CPU, everything in `i8`", ("i8",))):
        table.add(label, [key])
    return ["", "Activations in the engine's default blocks on the CPU, whole rows in chains:", "", *HEAD, *table.lines]


COVERAGES = {
    "size": "Without sensitivities, the channels first that lack most by their scales, as the plan chooses",
    "measured": "By what channels lack and how sensitive their matrices are, for a chain's time",
    "late": "Late by 2 layers, by the matrices' sensitivities alone",
}


def coverage_table(results, order):
    """By the part of the first set's bytes that has chains; those that the memory limit does not change are left out."""
    percents = sorted(key[2] for key in results if key[:2] == ("coverage", order))
    if not percents:
        return []
    base, full = (results["all", planes][0] for planes in ("base", "full"))
    lines = ["", f"{COVERAGES[order]}; all chains in time:", "",
             "| of the set's bytes | MiB | chains | perplexity | KL divergence | of the gap |", "|--:|--:|--:|--:|--:|--:|",
             f"| 0 % | 0 | 0 | {base['perplexity']:.4f} | {base['kld']:.5f} | 0 % |"]
    whole = results["all", "join", 100, 1][1]["resident_bytes"]
    last = results["all", "late", 2] if order == "late" else results["all", "join", 100, 1]
    limited = [results["coverage", order, percent] for percent in percents]
    for figures, overlay in [row for row in limited if row[1]["resident_bytes"] < last[1]["resident_bytes"]] + [last]:
        closed = (base["kld"] - figures["kld"]) / (base["kld"] - full["kld"])
        lines.append(f"| {100 * overlay['resident_bytes'] / whole:.1f} % | {overlay['resident_bytes'] / 2**20:.2f} | "
                     f"{overlay['chains']} | {figures['perplexity']:.4f} | {figures['kld']:.5f} | {100 * closed:.1f} % |")
    return lines


def as_markdown(facts, results, given):
    lines = [f"`bench/overlay_quality.py {' '.join(given)}`; {facts['chunks']} windows of {facts['context']} tokens, mean of "
             f"{facts['seeds']} seeds; commit {facts['commit']}.", ""]
    for name, words in NAMES.items():
        lines += [f"Overlaid set: {words}.", "", *set_table(results, name), ""]
    lines = lines[:-1] + blocks_table(results)
    for order in COVERAGES:
        lines += coverage_table(results, order)
    steps = [mean(results[key][0]["perplexity"] for key in seeds_in(results, "all", rate)) for rate in (0, 25, 50, 75, 100)]
    lines += ["", "Perplexity alone falls with every step of the first set's hit rate: "
              f"{'yes' if steps == sorted(steps, reverse=True) else 'no'}."]
    return "\n".join(lines)


NOT_FIGURES = ("key", "pack", "options", "overlay")


def spell(words):
    return " ".join(map(str, words))


def as_json(facts, work, results, problems):
    rows = [{"key": list(key), "pack": work[key][0], "options": spell(work[key][1]), **figures, "overlay": overlay}
            for key, (figures, overlay) in results.items()]
    return {**facts, "rows": rows, "problems": problems}
