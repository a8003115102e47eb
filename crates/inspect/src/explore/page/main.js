// What is selected, in all panes; search, keys, the address's hash.

/** Results that a search shows of each kind. */
const MOST_FOUND = 12;

class Explorer {
  constructor(builds) {
    this.builds = builds;
    this.build = builds[0];
    this.clear();
    this.graph = new GraphPane(this);
    this.kernels = new KernelPane(this);
    this.memory = new MemoryPane(this);
    this.texts = new TextPane(this);
    this.code = new CodePane(this);
  }

  clear() {
    /** Nodes of the model and rows that are marked. */
    this.nodes = new Set();
    this.rows = new Set();
    /** The row whose kernel is shown, the statement of it, the slot of memory. */
    this.row = null;
    this.statement = null;
    this.slot = null;
  }

  open(number) {
    this.build = this.builds[number];
    const { explanation } = this.build;
    byId("build").value = number;
    byId("facts").textContent = `${microseconds(explanation.total_us)} a run on `
      + `${explanation.target}, ${explanation.threads} thread(s); `
      + `${explanation.gflops.toFixed(1)} GFLOP/s and `
      + `${explanation.gigabytes_per_second.toFixed(1)} GB/s`;
    for (const pane of [this.graph, this.kernels, this.memory, this.texts]) pane.open(this.build);
    this.code.update();
  }

  /** Shows another build, with the same nodes selected. */
  switchTo(number) {
    const names = [...this.nodes].map((node) => this.build.nodes[node].name);
    this.clear();
    this.open(number);
    const same = this.build.nodes.flatMap((node, at) => (names.includes(node.name) ? [at] : []));
    this.selectNodes(same);
  }

  update(reveal = true) {
    this.graph.update(reveal);
    this.kernels.update(reveal);
    this.memory.follow();
    this.texts.update();
    this.code.update();
    this.writeHash();
  }

  selectNothing() {
    this.clear();
    this.update(false);
  }

  selectNode(node) {
    this.selectNodes([node]);
  }

  /** Nodes, and the longest of the rows that compute them. */
  selectNodes(nodes) {
    this.clear();
    this.nodes = new Set(nodes);
    for (const node of nodes) for (const row of this.build.rowsOfNode[node]) this.rows.add(row);
    this.row = this.build.byTime.find((row) => this.rows.has(row)) ?? null;
    this.update();
  }

  selectRow(number) {
    this.clear();
    this.row = number;
    this.rows = new Set([number]);
    this.nodes = new Set(this.build.rows[number].nodes);
    this.update();
  }

  selectStatement(statement) {
    this.statement = statement;
    this.texts.stageOf.loops = Infinity;
    if (this.row !== null && !this.nodes.size) {
      this.nodes = new Set(this.build.rows[this.row].nodes);
    }
    if (this.texts.shown !== "loops") this.texts.show("loops");
    this.update();
  }

  /** A value in memory: who writes it, or reads it first. */
  selectSlot(segment, slot) {
    const touches = (row) => row.segment === segment
      && (row.writes.includes(slot) || row.reads.includes(slot));
    const rows = this.build.rows.filter(touches);
    const writer = rows.find((row) => row.writes.includes(slot)) ?? rows[0];
    this.clear();
    this.slot = { segment, slot };
    this.rows = new Set(rows.map((row) => row.number));
    if (writer) {
      this.row = writer.number;
      this.nodes = new Set(writer.nodes);
    }
    this.update();
  }

  writeHash() {
    const parts = [];
    if (this.build.number) parts.push(`build=${this.build.number}`);
    if (this.row !== null) parts.push(`row=${this.row}`);
    if (this.statement !== null) parts.push(`statement=${this.statement}`);
    const { shown, stageOf } = this.texts;
    if (shown !== "loops") parts.push(`shown=${shown}`);
    if (Number.isFinite(stageOf[shown]) && stageOf[shown]) parts.push(`stage=${stageOf[shown]}`);
    // A page within a notebook has no address of its own.
    if (location.protocol === "about:") return;
    history.replaceState(null, "", `#${parts.join("&")}`);
  }

  readHash() {
    const given = new URLSearchParams(location.hash.slice(1));
    const number = (name) => (/^\d+$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null);
    const build = number("build") ?? 0;
    this.open(build < this.builds.length ? build : 0);
    const [row, statement] = [number("row"), number("statement")];
    if (row !== null && row < this.build.rows.length) this.selectRow(row);
    else if (this.build.byTime.length) this.selectRow(this.build.byTime[0]);
    if (statement !== null) this.selectStatement(statement);
    if (["passes", "reasons"].includes(given.get("shown"))) this.texts.show(given.get("shown"));
    if (number("stage") !== null) this.texts.setStage(number("stage"));
  }
}

/** The search field and what it finds. */
class Search {
  constructor(explorer) {
    Object.assign(this, { explorer, field: byId("search"), list: byId("found"), found: [],
      cursor: 0 });
    this.field.addEventListener("input", () => this.look());
    this.field.addEventListener("focus", () => this.look());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) this.take(Number(item.dataset.index));
    });
  }

  async look() {
    const text = this.field.value.trim().toLowerCase();
    if (!text) {
      this.close();
      return;
    }
    const { explorer } = this;
    const { build } = explorer;
    const found = [];
    const add = (what, list, name, take) => {
      let count = 0;
      for (let index = 0; index < list.length && count < MOST_FOUND; index++) {
        const own = name(list[index], index);
        if (!own.toLowerCase().includes(text)) continue;
        found.push({ what, name: own, take: () => take(index) });
        count++;
      }
    };
    add("node", build.nodes, (node) => `${node.operator} ${node.name}`,
      (index) => explorer.selectNode(index));
    add("kernel", build.rows, (row) => build.title(row), (index) => explorer.selectRow(index));
    build.memory.forEach((plan, segment) => add("value", plan.slots,
      (slot) => `${slot.value} ${slot.type}`,
      (index) => explorer.selectSlot(segment, plan.slots[index].slot)));
    const { code } = explorer.code;
    if (code) {
      add("instruction", code.text, (line) => line,
        (index) => {
          explorer.selectStatement(code.statements[index]);
          explorer.code.list.cursor = index;
          explorer.code.list.reveal(index);
          explorer.code.list.refresh();
        });
    }
    this.found = found;
    this.cursor = 0;
    this.write();
  }

  write() {
    this.list.replaceChildren(...this.found.map(({ what, name }, index) => {
      const item = make("li", "", null, make("span", "what", what), name);
      item.id = `found-${index}`;
      item.dataset.index = index;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", index === this.cursor);
      return item;
    }));
    if (!this.found.length) this.list.append(make("li", "", "nothing found"));
    this.list.hidden = false;
    this.field.setAttribute("aria-expanded", "true");
    this.field.setAttribute("aria-activedescendant", `found-${this.cursor}`);
  }

  key(event) {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && this.found.length) {
      event.preventDefault();
      this.cursor = (this.cursor + move + this.found.length) % this.found.length;
      this.write();
      byId(`found-${this.cursor}`).scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") this.take(this.cursor);
    else if (event.key === "Escape") this.field.blur();
  }

  take(index) {
    this.found[index]?.take();
    this.field.blur();
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
    this.field.removeAttribute("aria-activedescendant");
  }
}

function listenToKeys(explorer) {
  const panes = ["list-graph", "list-kernels", "drawing", "list-loops", "list-code"];
  document.addEventListener("keydown", (event) => {
    const isText = event.target.matches("input[type=search], select");
    if (isText || event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const pane = panes[Number(event.key) - 1];
    if (event.key === "/") byId("search").focus();
    else if (pane) byId(pane).focus();
    else if (event.key === "[") explorer.texts.move(-1);
    else if (event.key === "]") explorer.texts.move(1);
    else if (event.key === "t") switchTheme();
    else if (event.key === "?") byId("help").showModal();
    else if (event.key === "Escape") explorer.selectNothing();
    else if (event.key === "b" && explorer.builds.length > 1) {
      explorer.switchTo(1 - explorer.build.number);
    } else return;
    event.preventDefault();
  });
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

function listenToButtons(explorer) {
  byId("theme").addEventListener("click", switchTheme);
  byId("about").addEventListener("click", () => byId("help").showModal());
  for (const button of document.querySelectorAll(".grow")) {
    button.setAttribute("aria-label", "only this pane");
    button.addEventListener("click", () => {
      const grown = document.querySelector(".grown");
      const own = button.closest("section");
      grown?.classList.remove("grown");
      if (grown !== own) own.classList.add("grown");
      byId("panes").classList.toggle("one", grown !== own);
    });
  }
  const choice = byId("build");
  byId("builds").hidden = explorer.builds.length < 2;
  document.querySelector("[data-order=beside]").hidden = explorer.builds.length < 2;
  choice.append(...explorer.builds.map((build) => {
    const option = make("option", "", `${build.letter}: ${build.label}`);
    option.value = build.number;
    return option;
  }));
  choice.addEventListener("change", () => explorer.switchTo(Number(choice.value)));
}

async function start() {
  byId("title").textContent = document.title;
  const explorer = new Explorer(await openBuilds());
  listenToButtons(explorer);
  listenToKeys(explorer);
  new Search(explorer);
  explorer.readHash();
  byId("wait").remove();
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  byId("wait").textContent = `this page cannot be shown: ${error.message}`;
  throw error;
});
