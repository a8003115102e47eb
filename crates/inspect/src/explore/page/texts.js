// Texts: loops after each step of a schedule, functions after each pass, reasons, machine code.

/** Tables of more entries than this are not made: what changed is then told line by line. */
const MOST_COMPARED = 4_000_000;

/**
 * What became of a text: its lines and those that are gone, each `[number, of, sign]`: the number
 * in the new text or the old one, and "", "plus" or "minus". `same(a, b)` compares a number of the
 * old text with one of the new.
 */
function difference(before, after, same) {
  let first = 0;
  while (first < before && first < after && same(first, first)) first++;
  let last = 0;
  while (last < before - first && last < after - first
    && same(before - 1 - last, after - 1 - last)) last++;
  const [rows, columns] = [before - first - last, after - first - last];
  const result = [];
  for (let number = 0; number < first; number++) result.push([number, ""]);
  if (rows * columns > MOST_COMPARED) {
    for (let row = 0; row < rows; row++) result.push([first + row, "minus"]);
    for (let column = 0; column < columns; column++) result.push([first + column, "plus"]);
  } else {
    // The longest common subsequence, from the end.
    const width = columns + 1;
    const longest = new Uint32Array((rows + 1) * width);
    for (let row = rows - 1; row >= 0; row--) {
      for (let column = columns - 1; column >= 0; column--) {
        longest[row * width + column] = same(first + row, first + column)
          ? longest[(row + 1) * width + column + 1] + 1
          : Math.max(longest[(row + 1) * width + column], longest[row * width + column + 1]);
      }
    }
    let [row, column] = [0, 0];
    while (row < rows || column < columns) {
      if (row < rows && column < columns && same(first + row, first + column)) {
        result.push([first + column, ""]);
        row++;
        column++;
      } else if (row < rows && (column === columns
        || longest[(row + 1) * width + column] >= longest[row * width + column + 1])) {
        result.push([first + row++, "minus"]);
      } else {
        result.push([first + column++, "plus"]);
      }
    }
  }
  for (let number = after - last; number < after; number++) result.push([number, ""]);
  return result;
}

/** The pane whose tabs are loops, passes and reasons. */
class TextPane {
  constructor(explorer) {
    Object.assign(this, { explorer, shown: "loops", lines: [], stageOf: { loops: Infinity,
      passes: 0 } });
    this.list = new List(byId("list-loops"), "loops", (row, index) => this.fill(row, index),
      (index) => this.pick(index));
    for (const tab of document.querySelectorAll("[data-shown]")) {
      tab.addEventListener("click", () => this.show(tab.dataset.shown));
    }
    byId("stage").addEventListener("input", (event) => this.setStage(Number(event.target.value)));
    byId("stage-before").addEventListener("click", () => this.move(-1));
    byId("stage-after").addEventListener("click", () => this.move(1));
    byId("only").addEventListener("change", () => this.update());
  }

  open(build) {
    this.build = build;
    this.update();
  }

  show(what) {
    this.shown = what;
    for (const tab of document.querySelectorAll("[data-shown]")) {
      tab.setAttribute("aria-selected", tab.dataset.shown === what);
    }
    this.list.host.setAttribute("aria-label", what);
    this.update();
    this.explorer.writeHash();
  }

  setStage(stage) {
    this.stageOf[this.shown] = stage;
    this.update();
    this.explorer.writeHash();
  }

  move(by) {
    if (!this.stages) return;
    const last = this.stages.length - 1;
    const now = Math.min(this.stageOf[this.shown], last);
    this.setStage(Math.min(last, Math.max(0, now + by)));
  }

  /** Unpacks what is shown, and writes it unless something else is wanted meanwhile. */
  async update() {
    const { build, shown } = this;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const section = shown === "reasons" ? null : await build.section(shown);
    if (turn !== this.turn) return;
    byId("only-label").hidden = shown !== "passes";
    byId("stages").hidden = shown === "reasons";
    if (shown === "loops") this.writeLoops(section);
    else if (shown === "passes") this.writePasses(section);
    else this.writeReasons();
    const longest = Math.max(0, ...this.lines.map((line) => line.text.length));
    const content = `${shown} ${build.number} ${this.what ?? ""} ${this.stageOf[shown] ?? ""}`;
    this.list.set(this.lines.length, Math.min(longest, 4000), content === this.content);
    this.content = content;
    this.reveal();
  }

  writeStages(stages, name) {
    const slider = byId("stage");
    this.stages = stages;
    const now = Math.min(this.stageOf[this.shown], stages.length - 1);
    slider.max = stages.length - 1;
    slider.value = now;
    slider.disabled = stages.length < 2;
    byId("stage-name").textContent = stages.length ? `${now} of ${stages.length - 1}: ${name(now)}`
      : "";
    slider.setAttribute("aria-valuetext", byId("stage-name").textContent);
    return now;
  }

  writeLoops(section) {
    const row = this.explorer.row === null ? null : this.build.rows[this.explorer.row];
    const kernel = row && row.kernel !== null ? section.kernels[row.kernel] : null;
    this.what = row?.kernel;
    if (!kernel) {
      this.lines = [{ text: this.whyNoLoops(row) }];
      this.writeStages([], () => "");
      byId("stages").hidden = true;
      byId("note-loops").textContent = "";
      return;
    }
    const { stages } = kernel;
    const now = this.writeStages(stages, (stage) => stages[stage].step ?? "as defined");
    const text = (stage, number) => section.lines[stages[stage].lines[number]];
    const after = stages[now].lines;
    const before = now ? stages[now - 1].lines : after;
    const isLast = now === stages.length - 1;
    byId("note-loops").textContent = `${kernel.name}, ${stages.length - 1} steps`;
    this.lines = difference(before.length, after.length, (a, b) => before[a] === after[b])
      .map(([number, sign]) => ({
        text: text(sign === "minus" ? now - 1 : now, number), sign,
        statement: isLast && sign !== "minus" ? kernel.statements[number] : null,
      }));
  }

  whyNoLoops(row) {
    if (row) return "no kernel of the model: a copy, or what counts for a loop";
    if (!this.explorer.nodes.size) return "select a kernel, or a node of the model";
    return "it became part of no kernel: it was folded, or is done once, in setup";
  }

  writePasses(section) {
    const { stages } = section;
    const now = this.writeStages(stages, (stage) => {
      const { pass, changed_nothing: idle } = stages[stage];
      return pass + (idle.length ? ` (nothing changed by ${idle.join(", ")})` : "");
    });
    this.what = "";
    // Numbers of values change wherever one comes or goes.
    section.keys ??= section.lines.map((line) => line.replace(/%v\d+/g, "%v"));
    const { keys } = section;
    const after = stages[now].lines;
    // Setup and main are parts of what was before.
    const isPart = stages[now].pass.startsWith("cut: ");
    const before = now && !isPart ? stages[now - 1].lines : after;
    byId("note-loops").textContent = `${after.length} lines`;
    this.lines = difference(before.length, after.length, (a, b) =>
      keys[before[a]] === keys[after[b]]).map(([number, sign]) => {
      const line = sign === "minus" ? before[number] : after[number];
      return { text: section.lines[line], sign, nodes: section.nodes[line] };
    });
    if (byId("only").checked) {
      const { nodes } = this.explorer;
      this.lines = this.lines.filter((line) => line.nodes.some((node) => nodes.has(node)));
    }
  }

  writeReasons() {
    const { row } = this.explorer;
    const lines = reasonsOf(this.build, row === null ? null : this.build.rows[row]);
    this.stages = null;
    this.what = row;
    byId("note-loops").textContent = "";
    this.lines = lines.map(([what, text]) => ({ text, what }));
  }

  fill(row, index) {
    const line = this.lines[index];
    const sign = { plus: "+", minus: "−" }[line.sign] ?? "";
    row.append(make("span", line.what ? "number what" : "number", line.what ?? sign),
      make("span", "", line.text));
    if (line.sign) row.classList.add(line.sign);
    row.classList.toggle("marked", this.isMarked(line));
    if (line.nodes) row.title = line.nodes.map((node) => this.build.nodes[node].name).join("\n");
    if (this.shown === "reasons") row.title = line.text;
  }

  isMarked(line) {
    const { explorer } = this;
    if (line.nodes) return line.nodes.some((node) => explorer.nodes.has(node));
    return explorer.statement !== null && line.statement === explorer.statement;
  }

  pick(index) {
    const line = this.lines[index];
    if (line.nodes?.length) this.explorer.selectNodes(line.nodes);
    else if (line.statement !== null && line.statement !== undefined) {
      this.explorer.selectStatement(line.statement);
    }
  }

  reveal() {
    const at = this.lines.findIndex((line) => this.isMarked(line));
    if (at >= 0) this.list.reveal(at);
  }
}

/** The statements that stand within a statement of a kernel: between its first and last line. */
function statementsInside({ statements }, statement) {
  const [first, last] = [statements.indexOf(statement), statements.lastIndexOf(statement)];
  const found = new Set(statement === null ? [] : statements.slice(first, last));
  found.delete(statement);
  return found;
}

/** The first line of each statement of a kernel. */
function firstLines(section, kernel) {
  const found = [];
  const { lines } = kernel.stages[kernel.stages.length - 1];
  kernel.statements.forEach((statement, number) => {
    if (statement !== null) found[statement] ??= section.lines[lines[number]].trim();
  });
  return found;
}

/** The machine code of the selected kernel. */
class CodePane {
  constructor(explorer) {
    this.explorer = explorer;
    this.list = new List(byId("list-code"), "machine code", (row, index) => this.fill(row, index),
      (index) => explorer.selectStatement(this.code.statements[index]));
  }

  async update() {
    const { build, row } = this.explorer;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const [section, loops] = await Promise.all([build.section("code"), build.section("loops")]);
    if (turn !== this.turn) return;
    const kernel = row === null ? null : build.rows[row].kernel;
    this.code = kernel === null ? null : section[kernel];
    this.sources = kernel === null ? [] : firstLines(loops, loops.kernels[kernel]);
    this.inside = kernel === null ? new Set()
      : statementsInside(loops.kernels[kernel], this.explorer.statement);
    const count = this.code ? this.code.text.length : 0;
    const content = `${build.number} ${kernel}`;
    byId("note-code").textContent = this.code ? `${build.rows[row].name}, ${count} instructions`
      : "";
    const texts = this.code ? this.code.text : [];
    const longest = texts.reduce((most, it) => Math.max(most, it.length), 0);
    this.list.host.style.setProperty("--instruction", `${Math.min(longest, 64)}ch`);
    this.list.set(count, longest + 80, content === this.content);
    this.content = content;
    if (this.code && this.explorer.statement !== null) {
      this.list.reveal(this.longestRun(this.explorer.statement));
    }
  }

  /** Where the most instructions in a row begin that were made for a statement: its loop, not what
   * was moved out of it. */
  longestRun(statement) {
    const { statements } = this.code;
    let [first, most, begin] = [-1, 0, 0];
    statements.forEach((own, index) => {
      if (own !== statement) {
        begin = index + 1;
      } else if (index + 1 - begin > most) {
        [first, most] = [begin, index + 1 - begin];
      }
    });
    return first;
  }

  fill(row, index) {
    const { text, offsets, statements } = this.code;
    const source = statements[index] === null ? "" : this.sources[statements[index]];
    // What is made for the same statement as the line before need not say so again.
    const again = index > 0 && statements[index - 1] === statements[index];
    row.append(make("span", "number", offsets[index].toString(16)),
      make("span", "instruction", text[index]), make("span", "source", again ? "" : source));
    row.title = source;
    const { statement } = this.explorer;
    row.classList.toggle("marked", statement !== null && statements[index] === statement);
    row.classList.toggle("inside", this.inside.has(statements[index]));
  }
}
