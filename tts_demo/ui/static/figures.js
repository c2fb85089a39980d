// The table and the charts of all lanes on the board.
import { h } from "./base.js";
import { board } from "./board.js";
import { drawCharts, drawHeads, drawOwn, drawTradeoff } from "./charts.js";
import { count, tableRows } from "./count.js";

export const mountFigures = (root) => {
  root.className = "figures-view";
  const place = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures of all results" }),
    more = h("p", { class: "quiet", hidden: true }, "More results to the right: scroll the table sideways →"),
    own = h("div", { class: "own" }),
    charts = h("div", { class: "card charts" });
  const trade = h("div", { class: "own" });
  root.append(more, place, charts, own, trade);
  let draw = () => {};
  const wide = () => {
    more.hidden = place.scrollWidth <= place.clientWidth;
  };
  new ResizeObserver(wide).observe(place);
  const fill = () => {
    const lanes = board.lanes().filter(count.done);
    draw(board.lanes(), lanes);
    if (!lanes.length) {
      place.replaceChildren(h("p", { class: "quiet" }, "Nothing has been spoken yet."));
      return;
    }
    const head = h(
      "tr",
      {},
      h("th", { scope: "col" }, "Measure"),
      ...lanes.map((l) =>
        h(
          "th",
          { scope: "col" },
          h("i", { class: `dot slot-${l.slot}` }),
          ` ${l.title}`,
          h("small", {}, l.dials || "", l.made.seed !== undefined ? ` seed ${l.made.seed}` : ""),
        ),
      ),
    );
    const body = tableRows(lanes).map((row) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, row.name, h("small", {}, row.meaning)),
        ...row.cells.map((c) =>
          h("td", {}, c.words, c.verdict && h("small", { class: c.verdict.kind }, c.verdict.words)),
        ),
      ),
    );
    const heard = lanes
      .filter((l) => l.figures.heard !== undefined)
      .map((l) => h("li", {}, h("b", {}, l.title), `: ${l.figures.heard || "nothing"}`));
    place.replaceChildren(
      h("table", { class: "results" }, h("thead", {}, head), h("tbody", {}, ...body)),
      ...(heard.length
        ? [h("p", { class: "quiet" }, "A recogniser understood:"), h("ul", { class: "words" }, ...heard)]
        : []),
      ...lanes.map((l) =>
        h(
          "p",
          { class: "quiet conditions" },
          h("i", { class: `dot slot-${l.slot}` }),
          ` ${l.title}: ${count.conditions(l)}`,
        ),
      ),
    );
    wide();
  };
  board.on((live) => live || fill());
  fill();
  return (m) => {
    charts.replaceChildren();
    own.replaceChildren();
    trade.replaceChildren();
    const shared = drawCharts(charts, m),
      each = drawOwn(own, m);
    draw = (all, finished) => {
      shared(all);
      each(finished);
    };
    drawTradeoff(trade, m);
    drawHeads(trade, m);
    fill();
  };
};
