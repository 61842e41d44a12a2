// The history of one position: the likeliest tokens now, their ranks over the steps, and a table of all steps.

const cellHistory = {
  show(frame, at, go) {
    const block = blocks[frame.block];
    byId("cell-rest").hidden = at < 0;
    byId("cell-title").textContent = at < 0 ? "History of this cell" : capital(cellName(block, at));
    if (at < 0) {
      byId("cell-words").textContent = "Choose a cell to see its history: what was guessed, drawn, kept and taken back at each step.";
      this.key = "";
      return;
    }
    byId("cell-words").textContent = cellWords(block, frame.step, at, true);
    const key = `${frame.block}/${at}`;
    if (key !== this.key) {
      this.key = key;
      this.table(block, frame.block, at, go);
      this.chart(block, at);
    }
    this.mark(block, frame, at);
  },

  table(block, index, at, go) {
    const first = frames.findIndex((frame) => frame.block === index);
    const rows = [];
    for (let step = 0; step < block.steps; step += 1) {
      const i = step * block.length + at;
      const fates = { [NOISE]: block.filler === null ? "not accepted" : "not written", [ACCEPTED]: "accepted", [TAKEN_BACK]: "taken back",
        [SETTLED]: "accepted, settled" };
      const fate = isGiven(block, step, at) ? "given" : fates[block.fate[i]];
      const link = element("button", { type: "button", "aria-label": `Go to step ${stepNumber(step)}` }, `${stepNumber(step)}`);
      const row = element("tr", { class: block.fate[i] === TAKEN_BACK ? "taken-back" : block.accepted[i] ? "accepted" : "" },
        element("td", {}, link), tokenCell(block.argmax[i]), tokenCell(block.candidate[i]),
        element("td", {}, fate), element("td", { class: "figure" }, block.entropy[i].toFixed(3)));
      row.addEventListener("click", () => go(first + 1 + step));
      rows.push(row);
    }
    byId("history").querySelector("tbody").replaceChildren(...rows);
    this.rows = rows;
  },

  // A line for each token that was ever among the likeliest, at its rank; the size of a dot is its probability.
  chart(block, at) {
    const svg = byId("bump");
    const { steps, width, length } = block;
    svg.replaceChildren(byId("bump-title") || element("title"));
    svg.toggleAttribute("hidden", !width || !steps);
    this.now = null;
    if (!width || !steps) return;
    const left = 22, right = 108, across = 380 - left - right, row = 22, height = width * row + 26;
    svg.setAttribute("viewBox", `0 0 380 ${height}`);
    const x = (step) => left + (steps > 1 ? (across * step) / (steps - 1) : across / 2);
    const y = (rank) => 12 + rank * row;
    const most = Math.min(5, 1 + (0.45 * across) / steps); // radius of a sure dot
    const paths = new Map();
    for (let step = 0; step < steps; step += 1) {
      const i = step * length + at;
      if (block.fate[i] === TAKEN_BACK) {
        svg.append(element("line", { class: "taken-back", x1: x(step), x2: x(step), y1: 0, y2: height - 18 }));
      }
      for (let rank = 0; rank < width; rank += 1) {
        const token = block.top[rank * steps * length + i];
        if (!paths.has(token)) paths.set(token, []);
        paths.get(token).push([step, rank, block.share[rank * steps * length + i] / 1000]);
      }
    }
    for (let rank = 0; rank < width; rank += 1) svg.append(element("text", { x: 4, y: y(rank) + 4 }, `${rank + 1}`));
    const kept = block.committed ? block.final[at] : block.argmax[(steps - 1) * length + at];
    const ordered = [...paths].sort(([one], [other]) => (one === kept) - (other === kept));
    for (const [token, points] of ordered) svg.append(this.line(token, points, token === kept, steps, x, y, most));
    const axis = height - 4;
    svg.append(element("text", { x: left, y: axis }, `step ${stepNumber(0)}`), element("text", { x: x(steps - 1) - 8, y: axis }, `${stepNumber(steps - 1)}`));
    this.now = element("line", { class: "now", y1: 0, y2: height - 18 });
    this.x = x;
    svg.append(this.now);
  },

  line(token, points, kept, steps, x, y, most) {
    const group = element("g", kept ? { class: "kept" } : {});
    let path = "";
    points.forEach(([step, rank], place) => {
      const joined = place > 0 && points[place - 1][0] === step - 1;
      path += `${joined ? "L" : "M"}${x(step).toFixed(1)} ${y(rank)}`;
    });
    group.append(element("path", { d: path }));
    for (const [step, rank, share] of points) {
      group.append(element("circle", { cx: x(step).toFixed(1), cy: y(rank), r: (1 + (most - 1) * Math.sqrt(share)).toFixed(1) }));
    }
    const [step, rank] = points[points.length - 1];
    if (step === steps - 1) {
      const text = [...spelled(token)].slice(0, 10).join("");
      group.append(element("text", { class: "label", x: x(step) + 12, y: y(rank) + 4, direction: "ltr", "unicode-bidi": "isolate" }, text));
    }
    return group;
  },

  mark(block, frame, at) {
    const step = Math.min(frame.step, block.steps - 1);
    this.rows.forEach((row, place) => {
      if (place === step) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    const row = this.rows[step];
    if (row) {
      const box = byId("history");
      const top = row.offsetTop - 28;
      if (top < box.scrollTop || row.offsetTop + 28 > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 3;
    }
    if (this.now) {
      this.now.toggleAttribute("hidden", step < 0);
      this.now.setAttribute("x1", this.x(Math.max(step, 0)));
      this.now.setAttribute("x2", this.x(Math.max(step, 0)));
    }
    const items = [];
    for (let rank = 0; step >= 0 && rank < block.width; rank += 1) {
      const i = rank * block.steps * block.length + step * block.length + at;
      const share = block.share[i] / 1000;
      const bar = element("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none" }, element("rect", { width: 100 * share, height: 6 }));
      items.push(element("li", {}, element("b", {}, spelled(block.top[i])),
        element("span", { class: "share", "aria-hidden": "true" }, bar),
        element("span", { class: "number" }, share ? `${(100 * share).toFixed(1)} %` : "< 0.1 %")));
    }
    byId("top").replaceChildren(...items);
  },
};

function tokenCell(token) {
  const made = element("td", { class: "token" }, spelled(token));
  made.title = told.names[token] || JSON.stringify(told.pieces[token]);
  return made;
}
