"""Draws graphs with fusion groups as SVG.

Boxes are placed in layers.  The layer of a box is below the layers of its producers; an input is in the layer above its
first reader.  Many inputs with one common reader (an optimizer's state) are drawn as one box.  An edge across several
layers has a bend in each; edges of one value share their bends.  Within a layer boxes are sorted by the mean position
of their neighbours, above and below in turn; then each box moves towards its neighbours as far as order and widths
permit (least squares under an order: boxes that would overtake each other move as one block)."""
from html import escape

SWEEPS = 12
LINE = 15
PAD = 8
GAP_X = 16
GAP_Y = 44
MARGIN = 24
MOST_LINES = 14
TITLE = 22
BUNDLE = 5
LETTER = 6.7  # width of the 11-pixel monospace font

STYLE = """<style>text{font:11px monospace;fill:#1b1f24}.title{font:bold 13px sans-serif}.source{fill:#7a828c}\
.size{font-size:10px;fill:#42526b}.paper{fill:#fff}rect{stroke-width:1.2px}.group{fill:#dbe9fb;stroke:#2f6fb8}\
.call{fill:#fbe6d0;stroke:#c0702a}.view{fill:#f2f3f5;stroke:#a0a7b0}.input{fill:#e4f3e4;stroke:#4c9a55}\
.constant{fill:#fdf8d8;stroke:#b9a83a}.result{fill:#ece6f6;stroke:#7c59b5}\
.edge{fill:none;stroke:#77808c;stroke-width:1.1px}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0L8 4L0 8z" fill="#77808c"/></marker></defs>
"""
LEGEND = (("group", "group: one pass over memory"), ("call", "call"), ("view", "view"), ("input", "input"),
          ("result", "result"))


class Box:
    """Of kind group, call, view, constant, input, result, or bend: a place of an edge, which is not drawn."""

    def __init__(self, kind, lines=(), results=(), layer=0):
        self.kind = kind
        self.lines = list(lines)  # of (text, source)
        self.results = results  # (name, label) of each value that leaves it, with a label below
        self.layer = layer
        self.place = 0
        self.x = self.y = self.wide = self.tall = 0.0  # x: its centre
        self.bottom = 0.0  # of its layer
        self.bundled = []  # (name, label) of each value, where the box shows several inputs

    def text(self):
        """The lines that are drawn."""
        lines = self.bundled or self.lines
        if len(lines) > MOST_LINES:
            return [*lines[:MOST_LINES - 1], (f"and {len(lines) - MOST_LINES + 1} more", "")]
        return lines

    def labels(self):
        return () if self.kind in ("bend", "result") or self.bundled else self.results

    def measure(self):
        if self.kind == "bend":
            self.wide = 6
            return
        lines, labels = self.text(), self.labels()
        most = max((len(text) + (2 + len(source) if source else 0) for text, source in lines), default=0)
        label = max((len(label) + 1 for _, label in labels), default=0)
        self.wide = max(most * LETTER + 2 * PAD, label * len(labels) * LETTER)
        self.tall = len(lines) * LINE + PAD

    def port(self, name):
        """The x at which the edge of a value leaves."""
        if self.kind == "bend" or len(self.labels()) < 2:
            return self.x
        k = [result for result, _ in self.results].index(name)
        return self.x + self.wide * ((k + 0.5) / len(self.results) - 0.5)


class Edge:
    """From a box to one in the next layer, after bend_edges()."""

    def __init__(self, start, end, name):
        self.start, self.end, self.name = start, end, name


class Drawing:
    """A graph: the names and labels of its inputs, its nodes as in _C.Call.listing, the names of its outputs."""

    def __init__(self, title, inputs, nodes, outputs):
        self.title = title
        self.inputs = dict(inputs)
        self.boxes = []
        self.edges = []
        self.maker = {}  # box by name of a value
        self.find_boxes(nodes, outputs)
        self.order_of = {name: i for i, name in enumerate([*self.inputs, *(n for *_, made in nodes for n, _ in made)])}
        self.bundle_inputs()
        self.set_layers()
        self.bend_edges()
        self.layers = [[] for _ in range(max((b.layer for b in self.boxes), default=-1) + 1)]
        for box in self.boxes:
            box.place = len(self.layers[box.layer])
            self.layers[box.layer].append(box)
            box.measure()
        self.order()
        self.place()

    # --- boxes and edges ---

    def add_box(self, *args):
        self.boxes.append(Box(*args))
        return self.boxes[-1]

    def add_edges(self, end, names):
        for name in dict.fromkeys(names):
            if name not in self.maker and name in self.inputs:
                self.maker[name] = self.add_box("input", [(name, "")], ((name, self.inputs[name]),))
            if name in self.maker:  # else it is made inside of the node
                self.edges.append(Edge(self.maker[name], end, name))

    def find_boxes(self, nodes, outputs):
        for kind, lines, reads, made in nodes:
            box = self.add_box(kind, lines, made)
            self.add_edges(box, reads)
            self.maker.update((name, box) for name, _ in made)
        for name in outputs:
            if name not in self.inputs:
                self.add_edges(self.add_box("result", [("gives " + name, "")], ((name, ""),)), [name])

    def bundle_inputs(self):
        """Joins inputs with one common reader into one box, if the reader has many of them."""
        readers, own, bundle, kept = {}, {}, {}, []
        for e in self.edges:
            readers[e.start] = readers.get(e.start, 0) + 1
        alone = [e.start.kind == "input" and readers[e.start] == 1 for e in self.edges]
        for e, one in zip(self.edges, alone):
            own[e.end] = own.get(e.end, 0) + one
        for e, one in zip(self.edges, alone):
            joins = one and own[e.end] > BUNDLE
            if not joins or e.end not in bundle:
                kept.append(e)
            if joins:
                if e.end in bundle:
                    e.start.kind = "bend"  # without edges
                bundle.setdefault(e.end, e.start).bundled.append((e.name, self.inputs[e.name]))
        self.edges = kept

    # --- layers ---

    def set_layers(self):
        for e in self.edges:  # producers come before their readers
            e.end.layer = max(e.end.layer, 1 if e.start.kind == "input" else e.start.layer + 1)
        placed = set()
        for e in self.edges:
            above = e.end.layer - 1
            if e.start.kind in ("input", "constant") and (e.start not in placed or above < e.start.layer):
                e.start.layer = above
            placed.add(e.start)

    def bend_edges(self):
        """Replaces edges across several layers by edges through bends."""
        number = {box: i for i, box in enumerate(self.boxes)}
        edges = sorted(self.edges, key=lambda e: (self.order_of[e.name], e.end.layer, number[e.end]))
        self.edges, end = [], {}
        for e in edges:
            last = end.get(e.name, e.start)
            while last.layer < e.end.layer - 1:
                bend = self.add_box("bend", (), (), last.layer + 1)
                self.edges.append(Edge(last, bend, e.name))
                last = end[e.name] = bend
            self.edges.append(Edge(last, e.end, e.name))

    # --- order and places ---

    def wishes(self, above, below, value):
        """For each box the mean of `value` over its neighbours; its own value where it has none."""
        sums, counts = dict.fromkeys(self.boxes, 0.0), dict.fromkeys(self.boxes, 0)
        for e in self.edges:
            for box, other, counted in ((e.end, e.start, above), (e.start, e.end, below)):
                if counted:
                    sums[box] += value(other)
                    counts[box] += 1
        return {box: sums[box] / n if n else value(box) for box, n in counts.items()}

    def order(self):
        for k in range(SWEEPS):
            for layer in self.layers if k % 2 == 0 else self.layers[::-1]:
                wish = self.wishes(k % 2 == 0, k % 2 == 1, lambda box: box.place)
                layer.sort(key=wish.get)
                for i, box in enumerate(layer):
                    box.place = i

    def place(self):
        for k in range(SWEEPS):
            down, last = k % 2 == 0, k == SWEEPS - 1
            for layer in self.layers if down else self.layers[::-1]:
                place_layer(layer, self.wishes(down or last, not down or last, lambda box: box.x))
        left = min((box.x - box.wide / 2 for box in self.boxes), default=0)
        right, y = 0, MARGIN
        for layer in self.layers:
            tall = max((box.tall for box in layer), default=0)
            for box in layer:
                box.x += MARGIN - left
                box.tall = tall if box.kind == "bend" else box.tall
                box.y = y + tall - box.tall if box.kind in ("input", "constant") else y
                box.bottom = y + tall
                right = max(right, box.x + box.wide / 2)
            y += tall + GAP_Y
        self.wide, self.tall = right + MARGIN, y - GAP_Y + MARGIN

    # --- text ---

    def arrivals(self):
        """The x at which each edge arrives: edges into one box are ordered by their origin."""
        into = {}
        for e in self.edges:
            into.setdefault(e.end, []).append(e)
        for end, edges in into.items():
            edges.sort(key=lambda e: e.start.port(e.name))
            for before, e in enumerate(edges):
                spread = min(end.wide * 0.7, len(edges) * 14.0)
                yield e, end.x if end.kind == "bend" else end.x + spread * ((before + 0.5) / len(edges) - 0.5)

    def svg(self):
        arrival = dict(self.arrivals())
        boxes = [box for box in self.boxes if box.kind != "bend"]
        return "".join([*(edge_svg(e, arrival[e]) for e in self.edges),
                        *(text for box in boxes for text in (*box_svg(box), *label_svg(box)))])


def place_layer(layer, wish):
    """Sets x as near to the wish as order and widths permit; boxes that touch form blocks."""
    sums, sizes, offset = [], [], [0.0] * len(layer)
    for i, box in enumerate(layer):
        if i:
            offset[i] = offset[i - 1] + ((layer[i - 1].wide + box.wide) / 2 + GAP_X)
        sums.append(wish[box] - offset[i])
        sizes.append(1)
        while len(sums) > 1 and sums[-2] / sizes[-2] > sums[-1] / sizes[-1]:
            last = sums.pop(), sizes.pop()
            sums[-1] += last[0]
            sizes[-1] += last[1]
    means = [total / size for total, size in zip(sums, sizes) for _ in range(size)]
    for box, mean, at in zip(layer, means, offset):
        box.x = mean + at


def box_svg(box):
    left, y = box.x - box.wide / 2, box.y + PAD / 2.0 + LINE - 4
    yield (f'<rect class="{box.kind}" x="{left:.1f}" y="{box.y:.1f}" width="{box.wide:.1f}" height="{box.tall:.1f}" '
           f'rx="{10 if box.kind in ("input", "result") else 3}"/>\n')
    for text, source in box.text():
        alone = box.kind != "group" and not box.bundled and not source
        x, anchor = (box.x, ' text-anchor="middle"') if alone else (left + PAD, "")
        yield f'<text x="{x:.1f}" y="{y:.1f}"{anchor}>{escape(text, False)}</text>\n'
        if source:
            yield (f'<text class="source" x="{left + box.wide - PAD:.1f}" y="{y:.1f}" text-anchor="end">'
                   f'{escape(source, False)}</text>\n')
        y += LINE


def label_svg(box):
    for name, label in box.labels():
        x, y, wide = box.port(name), box.y + box.tall + 5, len(label) * 6.1 + 2
        yield (f'<rect class="paper" x="{x - wide / 2:.1f}" y="{y:.1f}" width="{wide:.1f}" height="11"/>'
               f'<text class="size" x="{x:.1f}" y="{y + 9:.1f}" text-anchor="middle">{label}</text>\n')


def edge_svg(e, x2):
    x1, y1, y2, bottom = e.start.port(e.name), e.start.y + e.start.tall, e.end.y, e.start.bottom
    half = (y2 - bottom) / 2
    path = (f'<path class="edge" d="M{x1:.1f} {y1:.1f}V{bottom:.1f}C{x1:.1f} {bottom + half:.1f} '
            f'{x2:.1f} {y2 - half:.1f} {x2:.1f} {y2:.1f}')
    return path + (f'V{y2 + e.end.tall:.1f}"/>\n' if e.end.kind == "bend" else '" marker-end="url(#tip)"/>\n')


def legend_svg():
    x = MARGIN
    for kind, text in LEGEND:
        yield (f'<rect class="{kind}" x="{x:.1f}" y="{MARGIN:.1f}" width="12" height="12" rx="2"/>'
               f'<text x="{x + 18:.1f}" y="{MARGIN + 10:.1f}">{text}</text>\n')
        x += 18 + len(text) * LETTER + 20


def draw(listing):
    """The SVG of all graphs of `listing` (_C.Call.listing), one below the other."""
    drawings = [Drawing(*part) for part in listing]
    wide = max([480, *(d.wide for d in drawings)])
    tall, y = 2 * MARGIN + sum(d.tall + TITLE for d in drawings), 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{tall:.0f}" '
           f'viewBox="0 0 {wide:.0f} {tall:.0f}">\n', STYLE,
           f'<rect width="{wide:.0f}" height="{tall:.0f}" fill="#fff"/>\n', *legend_svg()]
    for d in drawings:
        out.append(f'<text class="title" x="{MARGIN}" y="{y + TITLE - 6:.1f}">{escape(d.title, False)}</text>\n'
                   f'<g transform="translate({(wide - d.wide) / 2:.1f} {y + TITLE:.1f})">\n{d.svg()}</g>\n')
        y += d.tall + TITLE
    return "".join([*out, "</svg>\n"])
