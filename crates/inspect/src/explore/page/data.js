// The data: sections of builds, unpacked when they are asked for, and what ties their parts.

/** Makes an element with classes, a text and children; texts are never markup. */
function make(tag, classes, text, ...children) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (text !== undefined && text !== null) element.textContent = text;
  element.append(...children);
  return element;
}

/** As `make`, of a drawing, with attributes. */
function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);

async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

/** A build: its summary, with sections that come later. */
class Build {
  constructor(number, label) {
    this.number = number;
    this.letter = "AB"[number];
    this.label = label;
    this.packed = new Map();
    this.sections = new Map();
  }

  /** A promise of a section's content; it is unpacked once. */
  section(name) {
    if (!this.sections.has(name)) {
      const element = this.packed.get(name);
      this.sections.set(name, unpack(element.textContent));
      // The text is as large as the rest of the page.
      element.textContent = "";
    }
    return this.sections.get(name);
  }

  async open() {
    const summary = await this.section("summary");
    Object.assign(this, summary);
    // Of a model that computes nothing by kernels there is no time.
    this.total = this.explanation.total_us || Number.MIN_VALUE;
    this.rowsOfNode = this.nodes.map(() => []);
    this.timeOfNode = this.nodes.map(() => 0);
    this.rows.forEach((row, number) => {
      Object.assign(row, this.explanation.rows[number], { kernel: row.kernel });
      row.name = this.explanation.rows[number].kernel;
      row.number = number;
      row.nodes = this.rows[number].nodes_of_model;
      for (const node of row.nodes) {
        this.rowsOfNode[node].push(number);
        this.timeOfNode[node] += row.time_us;
      }
    });
    this.hottest = Math.max(1e-9, ...this.timeOfNode);
    this.byTime = this.rows.map((_, number) => number);
    this.byTime.sort((a, b) => this.rows[b].time_us - this.rows[a].time_us || a - b);
    // The types of elements besides f32 that the longest kernel of a node takes and gives.
    this.typesOfNode = this.nodes.map(() => "");
    for (const number of [...this.byTime].reverse()) {
      const { types, nodes } = this.rows[number];
      const others = (types ?? "").match(/\w+/g)?.filter((type) => type !== "f32") ?? [];
      const short = [...new Set(others)].join(" ");
      for (const node of nodes) this.typesOfNode[node] = short;
    }
  }

  /** What a row is called: its kernel and the nodes that it computes. */
  title(row) {
    const names = row.nodes.map((node) => this.nodes[node].name);
    const name = row.turns > 1 ? `${row.name} ×${row.turns}` : row.name;
    return names.length ? `${name}: ${names.join(", ")}` : name;
  }

  part(time) {
    return (100 * time) / this.total;
  }
}

/** The builds of the page, in order, each with its summary unpacked. */
async function openBuilds() {
  const builds = [];
  for (const element of document.querySelectorAll("script[data-section]")) {
    const { build, label, section } = element.dataset;
    builds[build] ??= new Build(Number(build), label);
    builds[build].packed.set(section, element);
  }
  await Promise.all(builds.map((build) => build.open()));
  return builds;
}

const microseconds = (time) => (time >= 1000 ? `${(time / 1000).toFixed(2)} ms`
  : `${time.toFixed(time < 10 ? 2 : 1)} us`);

function bytesText(bytes) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= size) return `${(bytes / size).toFixed(2)} ${unit}`;
  }
  return `${bytes} B`;
}
