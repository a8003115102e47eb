// The kernels of a run: times, predictions, part of the roofline.

const KERNEL_COLUMNS = [
  ["time", (row) => microseconds(row.time_us)],
  ["%", (row, build) => build.part(row.time_us).toFixed(1)],
  ["x pred", (row) => (row.predicted_us ? (row.time_us / row.predicted_us).toFixed(2) : "")],
  ["% roof", (row) => (row.kernel === null ? "" : (100 * row.roofline).toFixed(1))],
];

class KernelPane {
  constructor(explorer) {
    this.explorer = explorer;
    this.order = "time";
    this.list = new List(byId("list-kernels"), "kernels", (row, index) => this.fill(row, index),
      (index) => this.pick(index));
    for (const tab of document.querySelectorAll("[data-order]")) {
      tab.addEventListener("click", () => this.setOrder(tab.dataset.order));
    }
  }

  open(build) {
    this.build = build;
    this.setOrder(this.order);
  }

  setOrder(order) {
    this.order = order;
    for (const tab of document.querySelectorAll("[data-order]")) {
      tab.setAttribute("aria-selected", tab.dataset.order === order);
    }
    const { build } = this;
    const head = byId("columns-kernels");
    head.replaceChildren();
    head.parentElement.classList.toggle("beside", order === "beside");
    if (order === "beside") {
      this.comparison = compareBuilds(this.explorer.builds);
      for (const other of this.explorer.builds) {
        const cell = make("span", "number-cell", other.letter);
        cell.title = other.label;
        head.append(cell);
      }
      head.append(make("span", "number-cell", "A / B"));
      head.append(make("span", "title-cell", "nodes of the model"));
      byId("note-kernels").textContent = this.comparison.note;
      this.list.set(this.comparison.rows.length, 200);
      return;
    }
    this.rows = order === "time" ? build.byTime : build.rows.map((_, number) => number);
    for (const [name] of KERNEL_COLUMNS) head.append(make("span", "number-cell", name));
    head.append(make("span", "types-cell", "types"), make("span", "title-cell", "kernel: nodes"));
    const { explanation, total } = build;
    const explained = (100 * explanation.explained_us) / total;
    const between = Math.max(0, total - explanation.explained_us);
    byId("note-kernels").textContent = !build.rows.length ? "nothing is done by kernels"
      : `${explained.toFixed(1)} % of ${microseconds(total)}, `
      + `${microseconds(between)} between them`;
    const longest = Math.max(0, ...build.rows.map((row) => build.title(row).length));
    this.list.set(this.rows.length, Math.min(longest, 400) + 60);
  }

  pick(index) {
    if (this.order === "beside") this.explorer.selectNodes(this.comparison.rows[index]
      .nodes[this.build.number]);
    else this.explorer.selectRow(this.rows[index]);
  }

  fill(element, index) {
    element.classList.add("kernel");
    const { build } = this;
    if (this.order === "beside") {
      fillComparison(element, this.comparison.rows[index], this.explorer);
      return;
    }
    const row = build.rows[this.rows[index]];
    element.classList.toggle("marked", this.explorer.rows.has(row.number));
    element.title = build.title(row);
    const heat = make("span", "heat");
    heat.style.width = `${build.part(row.time_us)}%`;
    element.append(heat);
    for (const [, text] of KERNEL_COLUMNS) {
      element.append(make("span", "number-cell", text(row, build)));
    }
    const title = make("span", "title-cell", build.title(row));
    if (row.slow) title.prepend(make("span", "slow", "! "));
    element.append(make("span", "types-cell", row.types ?? ""), title);
  }

  update(reveal) {
    this.list.refresh();
    if (this.order === "beside" || !reveal) return;
    const at = this.rows.indexOf(this.explorer.row);
    if (at >= 0) this.list.reveal(at);
  }
}

/** How much of the run goes by each combination of element types in and out. */
function typesOf(build) {
  const times = new Map();
  for (const row of build.rows) {
    if (!row.types) continue;
    const [count, time] = times.get(row.types) ?? [0, 0];
    times.set(row.types, [count + 1, time + row.time_us]);
  }
  return [...times].sort((one, two) => two[1][1] - one[1][1]).map(([types, [count, time]]) =>
    `${types}: ${build.part(time).toFixed(1)} % of the time, ${count} kernel run(s)`);
}

/** Why a kernel is what it is, as lines with what they say in front. */
function reasonsOf(build, row) {
  const lines = [];
  const add = (what, texts) => texts.forEach((text) => lines.push([what, text]));
  if (row) {
    const flops = row.turns * row.flops;
    const bytes = row.turns * row.bytes;
    add("kernel", [build.title(row)]);
    add("time", [`${microseconds(row.time_us)}, predicted ${microseconds(row.predicted_us)}, `
      + `${(100 * row.roofline).toFixed(1)} % of the roofline`]);
    add("work", [`${(flops / 1e6).toFixed(3)} MFLOP, ${bytesText(bytes)}, of it `
      + `${bytesText(row.turns * row.prior_bytes)} there before the run`]);
    if (row.types) add("types", [row.types]);
    add("fused", row.fused);
    add("not fused", row.not_fused);
    add("schedule", row.schedule);
  }
  add("all types", typesOf(build));
  add("to try", build.explanation.to_try);
  add("code alone", build.explanation.why_alone);
  add("formats", build.explanation.formats);
  return lines;
}
