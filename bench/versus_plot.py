"""Draws decoding speed against bytes per token as an SVG: one mark an engine and model, and the line that memory allows.

Owns: the picture. Must not know: how anything was measured. Both axes are logarithmic, so the line of a bandwidth is straight:
tokens/s = bandwidth / bytes. A mark's distance below it is what an engine leaves unused.
"""

import math
from xml.sax.saxutils import escape

WIDTH, PANEL_HEIGHT, LEFT, RIGHT, TOP, GAP, BOTTOM = 860, 400, 70, 20, 40, 70, 110
FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"
# Colours that stay apart for colour-blind readers and in print; the marks differ as well.
STYLES = {"llama.cpp": ("#b35900", "diamond"), "ik_llama.cpp": ("#6a3d9a", "cross"), "ork nf4": ("#00669e", "circle"),
          "ork i4": ("#33c79b", "square"), "ork i8": ("#a3123a", "triangle")}
HALO = "stroke='#ffffff' stroke-width='3' paint-order='stroke'"
OTHER = ("#333333", "circle")


def style(engine):
    return STYLES.get(engine, OTHER)


def mark(kind, x, y, colour):
    size = 4 if kind == "square" else 6  # small enough to leave the circle of the other 4-bit tier visible
    if kind == "circle":
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='7.5' fill='{colour}'/>"
    if kind == "cross":
        return (f"<path d='M{x - size:.1f} {y - size:.1f}L{x + size:.1f} {y + size:.1f}M{x - size:.1f} {y + size:.1f}"
                f"L{x + size:.1f} {y - size:.1f}' stroke='{colour}' stroke-width='3' fill='none'/>")
    points = {"square": [(-1, -1), (1, -1), (1, 1), (-1, 1)], "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
              "triangle": [(0, -1.2), (1.2, 1), (-1.2, 1)]}[kind]
    path = " ".join(f"{x + a * size:.1f},{y + b * size:.1f}" for a, b in points)
    return f"<polygon points='{path}' fill='{colour}'/>"


def text(x, y, content, anchor="middle", size=12, colour="#222222", more=""):
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' fill='{colour}' {FONT} {more}>{escape(content)}</text>"


class Scale:
    """A logarithmic axis from whole steps of 1, 2, 5."""

    def __init__(self, values, start, end):
        self.low, self.high = min(values) / 1.6, max(values) * 1.6
        self.start, self.end = start, end

    def at(self, value):
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self):
        found = [digit * 10.0**power for power in range(-6, 13) for digit in (1, 2, 5)
                 if self.low <= digit * 10.0**power <= self.high]
        return found if len(found) <= 12 else [tick for tick in found if f"{tick:e}"[0] == "1"]


def plain(value, units):
    for size, unit in units:
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def axes(across, up, top, title):
    bottom, parts = up.start, []
    parts.append(f"<rect x='{LEFT}' y='{top}' width='{WIDTH - LEFT - RIGHT}' height='{PANEL_HEIGHT}' fill='none' stroke='#888888'/>")
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(f"<line x1='{x:.1f}' y1='{top}' x2='{x:.1f}' y2='{bottom}' stroke='#dddddd'/>")
        parts.append(text(x, bottom + 17, plain(tick, [(1e9, " GB"), (1e6, " MB"), (1e3, " kB")])))
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f"<line x1='{LEFT}' y1='{y:.1f}' x2='{WIDTH - RIGHT}' y2='{y:.1f}' stroke='#dddddd'/>")
        parts.append(text(LEFT - 8, y + 4, plain(tick, []), "end"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, top - 12, title, size=14))
    middle = top + PANEL_HEIGHT / 2
    parts.append(text(18, middle, "tokens/s", more=f"transform='rotate(-90 18 {middle:.1f})'"))
    return parts


def memory_line(across, up, bandwidth, name):
    """The part of tokens/s = bandwidth / bytes that is inside of the panel."""
    first = max(across.low, bandwidth / up.high)
    last = min(across.high, bandwidth / up.low)
    if first >= last:
        return []
    x1, y1, x2, y2 = across.at(first), up.at(bandwidth / first), across.at(last), up.at(bandwidth / last)
    angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
    x, y = x1 + 0.42 * (x2 - x1), y1 + 0.42 * (y2 - y1) - 7
    return [f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='#444444' stroke-width='2'/>",
            text(x, y, name, more=f"transform='rotate({angle:.1f} {x:.1f} {y:.1f})'")]


def panel(points, top, bandwidth, across, up, threads):
    """Points are (model, engine, bytes a token, tokens/s)."""
    parts = axes(across, up, top, f"{threads} thread{'s' if threads > 1 else ''}")
    parts += memory_line(across, up, bandwidth * 1e9, f"memory: {bandwidth:.0f} GB/s") if bandwidth else []
    places = {}
    marks = []
    for model, engine, size, rate in points:
        colour, kind = style(engine)
        x, y = across.at(size), up.at(rate)
        marks.append(f"<g><title>{escape(f'{model}, {engine}: {rate:.4g} tokens/s, {size / 1e6:.4g} MB a token')}</title>"
                     f"{mark(kind, x, y, colour)}</g>")
        places.setdefault(model, []).append((x, y))
    return parts + marks + names(places)


def names(places):
    """A line through the marks of each model, and its name: below them, or above at the end of the line where below is taken."""
    parts, taken = [], []
    for model, found in sorted(places.items(), key=lambda item: min(item[1])):
        found = sorted(found, key=lambda place: -place[1])
        half = 3.2 * len(model)

        def free(x, y):
            return all(abs(x - other) > half + 3.2 * length or abs(y - height) > 14 for other, height, length in taken)
        x, y = found[0][0], found[0][1] + 22
        x = min(max(x, LEFT + half + 4), WIDTH - RIGHT - half - 4)
        if not free(x, y):
            x = min(max(found[-1][0], LEFT + half + 4), WIDTH - RIGHT - half - 4)
            y = found[-1][1] - 40
            while not free(x, y):
                y -= 16
            found.append((found[-1][0], y + 5))
        taken.append((x, y, len(model)))
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in found)
        parts += [f"<polyline points='{line}' fill='none' stroke='#999999'/>", text(x, y, model, size=11, more=HALO)]
    return parts


def legend(engines, top):
    parts, x = [], LEFT
    for engine in engines:
        colour, kind = style(engine)
        parts += [mark(kind, x + 8, top, colour), text(x + 22, top + 4, engine, "start")]
        x += 40 + 8 * len(engine)
    return parts


def draw(panels, caption):
    """`panels`: [(threads, GB/s of plain reads or None, [(model, engine, bytes a token, tokens/s)])]. Returns the SVG's text."""
    panels = [entry for entry in panels if entry[2]]
    if not panels:
        return ""
    points = [point for _, _, found in panels for point in found]
    height = TOP + len(panels) * (PANEL_HEIGHT + GAP) + BOTTOM - GAP
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}'>",
             "<title>Decoding speed against bytes per token</title>", f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>"]
    for index, (threads, bandwidth, found) in enumerate(panels):
        top = TOP + index * (PANEL_HEIGHT + GAP)
        across = Scale([point[2] for point in points], LEFT, WIDTH - RIGHT)
        up = Scale([point[3] for point in found], top + PANEL_HEIGHT, top)
        parts += panel(found, top, bandwidth, across, up, threads)
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, height - BOTTOM + 38, "weight bytes read for a token"))
    engines = sorted({point[1] for point in points}, key=lambda name: (name not in STYLES, list(STYLES).index(name)
                                                                       if name in STYLES else 0, name))
    parts += legend(engines, height - 48)
    parts += [text(LEFT, height - 16, caption, "start", size=11), "</svg>"]
    return "\n".join(parts) + "\n"
