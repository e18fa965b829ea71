"""Which way of running a peer is its fastest: short runs of its file types and load modes, remembered in ork's cache.

Owns: the trials and their memory. Must not know: rounds and tables.
A peer's best counts, but running every way of it in every round would take hours. Every file type runs in the peer's first
mode, then the best type in its other modes; the winners of the prompt and of the generation test go into the comparison.
"""

import json
import sys

import bench_common as common
import versus_engines as engines
import versus_models as models

# Tokens of prompt and generation; the better of two repetitions counts.
LARGE, SMALL, REPETITIONS = (64, 16), (128, 24), 2


class Chooser:
    def __init__(self, programs, seconds_max, again):
        self.programs, self.seconds_max, self.again = programs, seconds_max, again
        self.path = models.folder() / "versus-choices.json"
        self.kept = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}
        self.names = engines.describe(programs)

    def key(self, comparison, peer, threads, files):
        sizes = " ".join(f"{plan or 'as it is'}:{path.stat().st_size}" for plan, path in files.items())
        modes = ", ".join(engines.MODES[peer])
        return f"{common.cpu_name()} | {peer} {self.names[peer]} | {comparison.name} | {threads} threads | {sizes} | {modes}"

    def trial(self, variant, threads, size):
        """{test: best rate}, or the reason why there is none."""
        work = engines.Work(threads, *size, REPETITIONS, self.seconds_max)
        try:
            rates = {test: max(found) for test, found in engines.run_alone(self.programs, variant, work)[0].items()}
        except common.BenchError as error:
            print(f"versus: trial: {variant.engine}, {variant.label()}, {threads} threads: {error}", file=sys.stderr)
            return str(error)
        shown = ", ".join(f"{test} {rate:.1f}" for test, rate in rates.items())
        print(f"versus: trial: {variant.file.name}, {variant.engine}, {variant.mode}, {threads} threads: {shown} tokens/s",
              file=sys.stderr)
        return rates

    def try_all(self, peer, threads, files, size):
        """[{plan, mode, pp, tg or error}]"""
        done, first = {}, next(iter(engines.MODES[peer]))

        def run(plan, mode):
            if (plan, mode) not in done:
                kind = plan or "as it is"
                done[plan, mode] = self.trial(engines.Variant(peer, files[plan], kind, mode), threads, size)
        for plan in files:
            run(plan, first)
        good = {plan: rates for (plan, _), rates in done.items() if isinstance(rates, dict)}
        for plan in {max(good, key=lambda plan: good[plan][test]) for test in ("pp", "tg")} if good else []:
            for mode in engines.MODES[peer]:
                run(plan, mode)
        return [{"plan": plan, "mode": mode, **(rates if isinstance(rates, dict) else {"error": rates})}
                for (plan, mode), rates in done.items()]

    def choose(self, comparison, peer, threads, files):
        """({test: Variant}, trials); raises when no way runs."""
        key = self.key(comparison, peer, threads, files)
        if self.again or key not in self.kept:
            trials = self.try_all(peer, threads, files, LARGE if comparison.large else SMALL)
            if not any("pp" in trial for trial in trials):
                raise common.BenchError(trials[0]["error"] if trials else f"{peer} has no file to run")
            self.kept[key] = trials
            self.path.write_text(json.dumps(self.kept, indent=1) + "\n", encoding="utf-8")
        trials = [trial for trial in self.kept[key] if "pp" in trial]
        best = {test: max(trials, key=lambda trial: trial[test]) for test in ("pp", "tg")}
        return ({test: engines.Variant(peer, files[trial["plan"]], trial["plan"] or "as it is", trial["mode"])
                 for test, trial in best.items()}, self.kept[key])
