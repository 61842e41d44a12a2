// The canvas as a table of cells, on the lines that its text ends with. Knows which cell is chosen or lit, and nothing of time.

const grid = {
  cells: [], columns: 0, starts: [], block: null, at: -1, chosen: -1,

  build(block) {
    const width = this.cellWidth(block);
    const room = byId("grid").clientWidth - 32;
    const columns = fitting(room, width, block.length);
    if (this.block === block && this.columns === columns) return;
    const hadFocus = this.cells.includes(document.activeElement);
    Object.assign(this, { block, columns, cells: [], starts: [] });
    const rows = [], ends = new Set(block.lineEnds);
    for (let at = 0; at < block.length; at += 1) {
      const cell = element("div", { role: "gridcell", class: "cell", tabindex: "-1", "data-at": at });
      cell.style.width = `${width}px`;
      this.cells.push(cell);
      if (!at || ends.has(at - 1) || at - this.starts[this.starts.length - 1] === columns) {
        rows.push(element("div", { role: "row", class: "row" }));
        this.starts.push(at);
      }
      rows[rows.length - 1].append(cell);
    }
    byId("grid").replaceChildren(...rows);
    byId("grid").classList.toggle("one", this.narrow);
    byId("grid").setAttribute("aria-rowcount", rows.length);
    byId("grid").setAttribute("aria-colcount", columns);
    const home = this.cells[this.chosen] || this.cells[0];
    if (home) home.tabIndex = 0;
    if (hadFocus && home) home.focus();
  },

  // The longest glyph of the block in either view, up to ten signs, so that nothing moves while it develops.
  cellWidth(block) {
    if (!block.longest) {
      let longest = 1;
      for (const tokens of [block.noise, block.final || [], block.argmax, block.following]) {
        for (const token of tokens) longest = Math.max(longest, [...glyphOf(token)[0]].length);
      }
      block.longest = Math.min(longest, 10);
    }
    this.narrow = block.longest < 2;
    return Math.ceil(block.longest * 10.3) + 12;
  },

  paint(frame, calm, layer, limit, ramp) {
    const block = blocks[frame.block];
    this.build(block);
    const base = Math.min(frame.step, block.steps - 1) * block.length;
    this.cells.forEach((cell, at) => {
      const token = tokenAt(block, frame.step, at, calm);
      const state = stateAt(block, frame.step, at, calm);
      const [text, kind] = glyphOf(token);
      const gone = kind === "end" || state === PADDING;
      const shaded = layer === "entropy" && base >= 0 && state !== PADDING;
      cell.textContent = gone ? "" : text;
      cell.className = `cell s${state}${gone ? " end" : kind === "sign" ? " sign" : ""}${shaded ? " shaded" : ""}`;
      if (shaded) {
        const share = limit > 0 ? Math.min(1, block.entropy[base + at] / limit) : 0;
        const [shade, ink] = ramp[Math.round(share * (ramp.length - 1))];
        cell.style.setProperty("--shade", shade);
        cell.style.setProperty("--on", ink);
      }
      cell.setAttribute("aria-label", cellWords(block, frame.step, at, calm));
      cell.setAttribute("aria-selected", at === this.chosen);
    });
  },

  choose(at) {
    this.chosen = at;
    this.cells.forEach((cell, place) => {
      cell.setAttribute("aria-selected", place === at);
      cell.tabIndex = place === Math.max(at, 0) ? 0 : -1;
    });
  },

  light(at) {
    this.cells.forEach((cell, place) => cell.classList.toggle("lit", place === at));
  },

  moved(at, columns, rows) {
    const row = this.starts.findLastIndex((start) => start <= at), to = row + rows;
    if (to < 0 || to >= this.starts.length) return at;
    const last = (to + 1 < this.starts.length ? this.starts[to + 1] : this.cells.length) - 1;
    const target = Math.min(this.starts[to] + at - this.starts[row], last) + columns;
    return target >= 0 && target < this.cells.length ? target : at;
  },
};

function fitting(room, width, count) {
  const fit = Math.max(1, Math.min(Math.floor((room + 2) / (width + 2)), 64));
  if (fit >= count && count > 0) return count;
  if (fit < 8) return fit;
  for (let columns = fit; columns >= Math.ceil(0.75 * fit); columns -= 1) if (count % columns === 0) return columns;
  return fit - (fit % 4);
}

function cellWords(block, step, at, calm) {
  const state = told.states[stateAt(block, step, at, calm)];
  const words = [`Position ${at}`, `“${spelled(tokenAt(block, step, at, calm))}”`, state];
  if (step >= 0 && block.steps) {
    const i = Math.min(step, block.steps - 1) * block.length + at;
    words.push(`entropy ${block.entropy[i].toFixed(3)} nats`, count(block.remelts[i], "remelt"));
  }
  return words.join(", ");
}

const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

function paintLegend() {
  const given = blocks.some((block) => block.pinned.size || block.held.size);
  const shown = [NOISE, CANDIDATE, ACCEPTED, REMELTED, SETTLED, ...(given ? [GIVEN] : [])];
  byId("legend").replaceChildren(...shown.map((state) => element("li", {},
    element("span", { class: `cell s${state}`, "aria-hidden": "true" }, "a"), told.states[state])));
}
