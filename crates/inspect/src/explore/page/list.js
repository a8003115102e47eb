// A list of any length, of which only the rows in sight are elements.

/** Rows beyond what is in sight, above and below. */
const BEYOND = 8;

class List {
  /**
   * `fill(row, index)` puts content into an empty element of class `row`; `pick(index)` is called
   * when a row is clicked or chosen by a key; `width` is the longest row in characters.
   */
  constructor(host, label, fill, pick) {
    Object.assign(this, { host, fill, pick, count: 0, cursor: -1, height: 20 });
    host.tabIndex = 0;
    host.setAttribute("role", "listbox");
    host.setAttribute("aria-label", label);
    this.spacer = make("div", "spacer");
    host.append(this.spacer);
    this.shown = new Map();
    this.waiting = false;
    host.addEventListener("scroll", () => this.later(), { passive: true });
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.choose(Number(row.dataset.index));
    });
    new ResizeObserver(() => this.later()).observe(host);
  }

  /** Shows another list of rows from its beginning, or as it was scrolled. */
  set(count, width = 0, keep = false) {
    this.count = count;
    this.cursor = Math.min(this.cursor, count - 1);
    this.spacer.style.height = `${count * this.height}px`;
    this.spacer.style.width = width ? `calc(${width}ch + 80px)` : "100%";
    if (!keep) {
      this.host.scrollTop = 0;
      this.cursor = -1;
    }
    this.refresh();
  }

  /** Writes all rows in sight anew. */
  refresh() {
    for (const row of this.shown.values()) row.remove();
    this.shown.clear();
    this.show();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.show();
    });
  }

  show() {
    const { scrollTop, clientHeight } = this.host;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - BEYOND);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.height) + BEYOND);
    for (const [index, row] of this.shown) {
      if (index < first || index >= last) {
        row.remove();
        this.shown.delete(index);
      }
    }
    const added = document.createDocumentFragment();
    for (let index = first; index < last; index++) {
      if (this.shown.has(index)) continue;
      const row = make("div", "row");
      row.id = `${this.host.id}-${index}`;
      row.dataset.index = index;
      row.style.transform = `translateY(${index * this.height}px)`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-setsize", this.count);
      row.setAttribute("aria-posinset", index + 1);
      this.fill(row, index);
      row.classList.toggle("at", index === this.cursor);
      row.setAttribute("aria-selected", row.classList.contains("marked"));
      this.shown.set(index, row);
      added.append(row);
    }
    this.spacer.append(added);
    if (this.shown.has(this.cursor)) {
      this.host.setAttribute("aria-activedescendant", `${this.host.id}-${this.cursor}`);
    } else {
      this.host.removeAttribute("aria-activedescendant");
    }
  }

  /** Scrolls a row into sight, in the middle if it was out of sight. */
  reveal(index) {
    if (index < 0 || index >= this.count) return;
    const { scrollTop, clientHeight } = this.host;
    const top = index * this.height;
    if (top < scrollTop || top + this.height > scrollTop + clientHeight) {
      this.host.scrollTop = top - clientHeight / 2;
    }
    this.show();
  }

  choose(index) {
    this.cursor = index;
    this.pick(index);
    this.refresh();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.host.clientHeight / this.height) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
      Home: -this.count, End: this.count };
    const move = moves[event.key];
    if (move === undefined || !this.count || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const index = Math.min(this.count - 1, Math.max(0, this.cursor + move));
    this.choose(index);
    this.reveal(index);
  }
}
