// The model's graph: a row a node in the order of the model, and rails that lead from a value to
// those that read it, as version control draws its history.

/** Pixels from one rail to the next. */
const RAIL = 9;

/** Rails that are drawn; what goes further to the right is drawn on the last. */
const MOST_RAILS = 16;

/**
 * For each node its rail, the rails of what it reads, and those that pass it by. A value keeps its
 * rail up to the last node that reads it; who reads a value last takes over its rail.
 */
function layRails(nodes) {
  const last = nodes.map(() => -1);
  nodes.forEach((node, number) => {
    for (const from of node.from) if (from < number) last[from] = number;
  });
  // The value on each rail, or nothing.
  const rails = [];
  const railOf = [];
  return nodes.map((node, number) => {
    const before = rails.map((value) => value !== null && value !== undefined);
    const read = node.from.filter((from) => from < number);
    const ending = read.filter((from) => last[from] === number);
    for (const from of ending) rails[railOf[from]] = null;
    let own = ending.length ? Math.min(...ending.map((from) => railOf[from])) : rails.indexOf(null);
    if (own < 0) own = rails.length;
    railOf[number] = own;
    if (last[number] >= 0) rails[own] = number;
    else if (rails[own] === undefined) rails[own] = null;
    const passing = [];
    before.forEach((was, rail) => {
      if (was && rail !== own && rails[rail] !== null) passing.push(rail);
    });
    return { own, reads: read.map((from) => railOf[from]), passing, goesOn: last[number] >= 0 };
  });
}

class GraphPane {
  constructor(explorer) {
    this.explorer = explorer;
    this.list = new List(byId("list-graph"), "nodes of the model", (row, index) =>
      this.fill(row, index), (index) => explorer.selectNode(index));
  }

  open(build) {
    this.build = build;
    this.rails = layRails(build.nodes);
    const widest = Math.max(0, ...this.rails.map((it) => it.own)) + 1;
    this.width = Math.min(widest, MOST_RAILS) * RAIL + 4;
    byId("note-graph").textContent = `${build.nodes.length} nodes`;
    this.list.set(build.nodes.length);
  }

  fill(row, index) {
    const { build } = this;
    const node = build.nodes[index];
    const time = build.timeOfNode[index];
    row.classList.add("node");
    row.classList.toggle("marked", this.explorer.nodes.has(index));
    row.title = `${node.operator} ${node.name}\n${node.type}`;
    row.append(this.drawing(index), make("span", "operator", node.operator),
      make("span", "name", node.name));
    if (build.typesOfNode[index]) row.append(make("span", "types", build.typesOfNode[index]));
    const bar = make("span", "bar");
    const filled = make("i");
    filled.style.width = `${(100 * time) / build.hottest}%`;
    bar.append(filled);
    row.append(make("span", "time", time ? microseconds(time) : ""), bar);
  }

  drawing(index) {
    const { own, reads, passing, goesOn } = this.rails[index];
    const place = (rail) => Math.min(rail, MOST_RAILS - 1) * RAIL + RAIL / 2;
    const height = this.list.height;
    const half = height / 2;
    const drawing = draw("svg", { width: this.width, height, "aria-hidden": "true" });
    const paths = passing.map((rail) => `M${place(rail)} 0V${height}`);
    for (const rail of reads) {
      const from = place(rail);
      const to = place(own);
      const bent = `C${from} ${half} ${to} 2 ${to} ${half}`;
      paths.push(`M${from} 0${from === to ? `V${half}` : bent}`);
    }
    if (goesOn) paths.push(`M${place(own)} ${half}V${height}`);
    const share = Math.sqrt(this.build.timeOfNode[index] / this.build.hottest);
    const paint = `color-mix(in oklab, var(--heat) ${Math.round(100 * share)}%, var(--line))`;
    drawing.append(draw("path", { class: "rail", d: paths.join("") }),
      draw("circle", { cx: place(own), cy: half, r: 3.5, style: `fill:${paint}` }));
    return drawing;
  }

  update(reveal) {
    this.list.refresh();
    if (reveal && this.explorer.nodes.size) this.list.reveal(Math.min(...this.explorer.nodes));
  }
}
