// Runs that this browser keeps: show one again, lay its results beside others, use its settings, forget it.
import { button, h, refocus } from "./base.js";
import { board } from "./board.js";
import { form } from "./form.js";
import { madeWords } from "./headline.js";
import { store } from "./store.js";

export const mountEarlier = (root) => {
  root.className = "earlier";
  const said = h("p", { class: "quiet", role: "status" });
  const list = h("div", {});
  root.append(
    h(
      "p",
      { class: "quiet" },
      "Runs are kept in this browser only. " +
        "Lay results of an earlier run beside what is on the board: each keeps its own conditions.",
    ),
    said,
    list,
  );
  const fill = () =>
    refocus(list, () => {
      const takes = new Map(),
        shown = board.ids();
      for (const l of store.lanes()) takes.set(l.take, [...(takes.get(l.take) || []), l]);
      const rows = [...takes.values()].reverse().map((lanes) => {
        const ids = lanes.map((l) => l.id),
          first = lanes[0];
        return h(
          "section",
          { class: "take" },
          h("h4", {}, first.recorded ? `Recorded: ${first.recorded}` : new Date(first.when).toLocaleString()),
          h("p", { class: "quiet" }, madeWords(first).join(" · ")),
          h(
            "ul",
            {},
            ...lanes.map((l) =>
              h(
                "li",
                {},
                h("span", {}, `${l.title}${l.dials ? ` (${l.dials})` : ""}, ${l.seconds.toFixed(1)} s`),
                shown.includes(l.id)
                  ? h("span", { class: "tag" }, "on the board")
                  : button(
                      "Lay beside",
                      { class: "small", "data-key": `lay ${l.id}`, "aria-label": `Lay beside the board: ${l.title}` },
                      () => {
                        said.textContent = board.lay([l.id]);
                      },
                    ),
              ),
            ),
          ),
          h(
            "div",
            { class: "row" },
            button("Show this run", { class: "small", "data-key": `show ${first.take}` }, () => board.replace(ids)),
            button("Use its settings", { class: "small", "data-key": `use ${first.take}` }, () => form.use(lanes)),
            button("Forget", { class: "small", "data-key": `forget ${first.take}` }, () => {
              ids.forEach((id) => {
                if (board.ids().includes(id)) board.remove(id);
                store.drop(id);
              });
            }),
          ),
        );
      });
      list.replaceChildren(...(rows.length ? rows : [h("p", { class: "quiet" }, "Runs you make appear here.")]));
    });
  board.on((live) => live || fill());
  store.on(fill);
  store.ready.then(fill);
};
