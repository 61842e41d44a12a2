// A decision's questions with what its reads up to the shown frame found. Knows no canvas but its slots.

const slots = told.decision ? told.decision.slots : [];

const answers = {
  build() {
    byId("answers").hidden = !told.decision;
    if (!told.decision) return;
    this.rows = told.decision.questions.map((question, place) => {
      const said = element("p", { class: "said" }), facts = element("p", { class: "facts" });
      const options = question.options.map((name) => {
        const bar = element("span", { class: "bar-of" }), figure = element("span", { class: "number" });
        const track = element("span", { class: "track", "aria-hidden": "true" }, bar);
        return { bar, figure, row: element("li", {}, element("span", { class: "option" }, name), track, figure) };
      });
      const list = element("ol", {}, ...options.map((option) => option.row));
      const made = element("li", { class: "question" }, element("p", { dir: "auto" }, question.text), said, list, facts);
      made.addEventListener("mouseenter", () => grid.light(slots[place] ?? -1));
      made.addEventListener("mouseleave", () => grid.light(-1));
      return { made, said, facts, options };
    });
    byId("questions").replaceChildren(...this.rows.map((row) => row.made));
  },

  // How many reads are known at a frame.
  count: (frame) => Math.min(frame.block + (frame.step >= 0 ? 1 : 0), told.decision.reads.length),

  show(frame) {
    if (!told.decision) return;
    const known = told.decision.reads[this.count(frame) - 1];
    this.rows.forEach((row, place) => {
      const found = known && known[place];
      row.said.textContent = found ? found.said : "not read yet";
      row.facts.textContent = found ? found.facts : "";
      const best = found ? found.shares.indexOf(Math.max(...found.shares)) : -1;
      row.options.forEach((option, index) => {
        const share = found ? found.shares[index] : 0;
        option.bar.style.width = `${100 * share}%`;
        option.figure.textContent = found ? `${(100 * share).toFixed(1)} %` : "";
        option.row.classList.toggle("best", index === best);
      });
    });
  },

  light(at) {
    if (told.decision) this.rows.forEach((row, place) => row.made.classList.toggle("lit", slots[place] === at));
  },
};
