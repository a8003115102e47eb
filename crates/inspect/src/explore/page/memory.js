// The memory plan over time, and the roofline of the kernels.

/** Space around a drawing. */
const MARGIN = { left: 68, right: 12, top: 10, bottom: 24 };

class MemoryPane {
  constructor(explorer) {
    Object.assign(this, { explorer, drawing: "memory", host: byId("drawing"), segment: 0 });
    for (const tab of document.querySelectorAll("[data-drawing]")) {
      tab.addEventListener("click", () => {
        this.drawing = tab.dataset.drawing;
        for (const other of document.querySelectorAll("[data-drawing]")) {
          other.setAttribute("aria-selected", other === tab);
        }
        this.paint();
      });
    }
    byId("segment").addEventListener("change", (event) => {
      this.segment = Number(event.target.value);
      this.paint();
    });
    this.host.addEventListener("click", (event) => {
      const { slot, row } = event.target.dataset ?? {};
      if (slot !== undefined) this.explorer.selectSlot(this.segment, Number(slot));
      if (row !== undefined) this.explorer.selectRow(Number(row));
    });
    this.host.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => requestAnimationFrame(() => this.paint())).observe(this.host);
  }

  open(build) {
    this.build = build;
    this.segment = 0;
    const choice = byId("segment");
    choice.hidden = build.memory.length < 2;
    choice.replaceChildren(...build.memory.map((_, number) => {
      const option = make("option", "", `segment ${number}`);
      option.value = number;
      return option;
    }));
    this.paint();
  }

  paint() {
    if (!this.build) return;
    const { clientWidth, clientHeight } = this.host;
    if (!clientWidth || !clientHeight) return;
    this.size = { width: clientWidth, height: clientHeight };
    const picture = draw("svg", { viewBox: `0 0 ${clientWidth} ${clientHeight}`, role: "img" });
    if (this.drawing === "roofline") this.paintRoofline(picture);
    else this.paintMemory(picture);
    this.host.replaceChildren(picture);
    this.update();
  }

  paintMemory(picture) {
    const plan = this.build.memory[this.segment];
    if (!plan) return;
    const across = this.size.width - MARGIN.left - MARGIN.right;
    const down = this.size.height - MARGIN.top - MARGIN.bottom;
    const arena = Math.max(1, plan.arena_bytes);
    const begins = this.beginnings(plan);
    const x = (step) => MARGIN.left + across * begins[step];
    const y = (offset) => MARGIN.top + (down * offset) / arena;
    this.stepPlace = x;
    picture.setAttribute("aria-label", `${plan.slots.length} values in ${bytesText(arena)}`);
    for (const slot of plan.slots) {
      const box = draw("rect", {
        class: "slot", x: x(slot.first), y: y(slot.offset),
        width: Math.max(1, x(slot.last + 1) - x(slot.first)),
        height: Math.max(0.5, y(slot.offset + slot.bytes) - y(slot.offset)),
        "data-slot": slot.slot,
      });
      box.append(draw("title", {}, `${slot.value} ${slot.type}\n${bytesText(slot.bytes)} at `
        + `${slot.offset}, steps ${slot.first} to ${slot.last}`));
      picture.append(box);
    }
    for (let part = 0; part <= 4; part++) {
      const text = draw("text", { x: MARGIN.left - 6, y: y((arena * part) / 4) + 4,
        "text-anchor": "end" }, bytesText(Math.round((arena * part) / 4)));
      picture.append(text);
    }
    picture.append(draw("line", { class: "now", y1: MARGIN.top, y2: MARGIN.top + down, x1: -9,
      x2: -9 }));
    picture.append(draw("text", { x: MARGIN.left, y: this.size.height - 8 },
      this.drawing === "time" ? "time →" : `${plan.steps} steps of the program →`));
    const share = plan.arena_bytes / Math.max(1, plan.largest_live_set);
    byId("note-memory").textContent = `${bytesText(plan.arena_bytes)}, ${share.toFixed(3)} of the `
      + "largest live set";
  }

  /** Where each step begins, and the last ends, of the width of the drawing. */
  beginnings(plan) {
    const lengths = new Array(plan.steps).fill(this.drawing === "time" ? 0 : 1);
    if (this.drawing === "time") {
      for (const row of this.build.rows) {
        if (row.segment === this.segment) lengths[row.step] += row.time_us;
      }
    }
    const begins = [0];
    for (const length of lengths) begins.push(begins[begins.length - 1] + length);
    const whole = begins[begins.length - 1] || 1;
    return begins.map((begin) => begin / whole);
  }

  paintRoofline(picture) {
    const { rows, explanation } = this.build;
    const points = rows.filter((row) => row.kernel !== null && row.flops && row.bytes
      && row.time_us);
    const intensity = (row) => row.flops / row.bytes;
    const rate = (row) => (row.turns * row.flops) / row.time_us / 1e3;
    const { gflops, gigabytes_per_second: bandwidth } = explanation;
    const xs = [...points.map(intensity), gflops / bandwidth];
    const ys = [...points.map(rate), gflops];
    const range = (list) => [Math.log10(Math.min(...list)) - 0.2,
      Math.log10(Math.max(...list)) + 0.2];
    const [left, right] = range(xs);
    const [bottom, top] = range(ys);
    const across = this.size.width - MARGIN.left - MARGIN.right;
    const down = this.size.height - MARGIN.top - MARGIN.bottom;
    const x = (value) => MARGIN.left + (across * (Math.log10(value) - left)) / (right - left);
    const y = (value) => MARGIN.top + (down * (top - Math.log10(value))) / (top - bottom);
    const least = 10 ** left;
    const ridge = gflops / bandwidth;
    picture.setAttribute("aria-label", "roofline of the kernels");
    const ceiling = [[least, least * bandwidth], [ridge, gflops], [10 ** right, gflops]];
    picture.append(draw("polyline", { class: "ceiling",
      points: ceiling.map(([at, rate]) => `${x(at)},${y(rate)}`).join(" ") }));
    picture.append(draw("text", { x: MARGIN.left + across, y: y(gflops) - 4, "text-anchor": "end" },
      `${gflops.toFixed(1)} GFLOP/s`));
    picture.append(draw("text", { x: MARGIN.left, y: this.size.height - 8 },
      `operations a byte → (${bandwidth.toFixed(1)} GB/s)`));
    for (const row of points) {
      const share = Math.sqrt(row.time_us / this.build.total);
      const point = draw("circle", { cx: x(intensity(row)), cy: y(rate(row)), r: 3 + 16 * share,
        "fill-opacity": 0.7, "data-row": row.number });
      point.append(draw("title", {}, `${this.build.title(row)}\n${rate(row).toFixed(1)} GFLOP/s, `
        + `${(100 * row.roofline).toFixed(1)} % of the roofline`));
      picture.append(point);
    }
    byId("note-memory").textContent = "the larger, the more time";
  }

  /** Shows the segment of the row that is selected. */
  follow() {
    const { row } = this.explorer;
    const segment = row === null ? this.segment : this.build.rows[row].segment;
    if (segment === this.segment) {
      this.update();
      return;
    }
    this.segment = segment;
    byId("segment").value = segment;
    this.paint();
  }

  update() {
    const { explorer, host } = this;
    if (this.drawing !== "roofline") {
      const row = explorer.row === null ? null : this.build.rows[explorer.row];
      const here = row && row.segment === this.segment;
      const reads = new Set(here ? row.reads : []);
      const writes = new Set(here ? row.writes : []);
      for (const box of host.querySelectorAll(".slot")) {
        const slot = Number(box.dataset.slot);
        const chosen = explorer.slot?.segment === this.segment && explorer.slot.slot === slot;
        box.classList.toggle("written", writes.has(slot) || chosen);
        box.classList.toggle("read", reads.has(slot) && !writes.has(slot) && !chosen);
      }
      const now = host.querySelector(".now");
      if (now && this.stepPlace) {
        const place = here ? (this.stepPlace(row.step) + this.stepPlace(row.step + 1)) / 2 : -9;
        now.setAttribute("x1", place);
        now.setAttribute("x2", place);
      }
    } else {
      for (const point of host.querySelectorAll("circle")) {
        point.classList.toggle("marked", explorer.rows.has(Number(point.dataset.row)));
      }
    }
  }

  /** Left and right go through the steps of the run. */
  key(event) {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move || !this.build.rows.length) return;
    event.preventDefault();
    const next = (this.explorer.row ?? -1) + move;
    this.explorer.selectRow(Math.min(this.build.rows.length - 1, Math.max(0, next)));
  }
}
