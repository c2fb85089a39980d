// "How it works": every method with its picture, the conditions of the figures, the keys.
import { button, h } from "./base.js";
import { methodCard } from "./picture.js";
import { startTour } from "./tour.js";

export const mountHow = (root) => (about) => {
  const section = (title, ...kids) => h("section", {}, h("h3", {}, title), ...kids);
  root.className = "about";
  root.replaceChildren(
    h("p", {}, button("Play the guided tour", { class: "small", id: "tour-again" }, startTour)),
    h("div", { class: "cards" }, ...about.methods.map((m) => h("article", {}, h("h3", {}, m.title), methodCard(m)))),
    h(
      "div",
      { class: "cols" },
      section("How it is measured", h("p", {}, about.conditions)),
      section(
        "Keys",
        h(
          "dl",
          { class: "keys" },
          ...about.keys.map(([k, v]) => h("div", {}, h("dt", {}, h("kbd", {}, k)), h("dd", {}, v))),
        ),
      ),
      section("Please", h("p", {}, about.misuse)),
      section(
        "The code",
        h("p", {}, about.code.words, " ", about.code.url ? h("a", { href: about.code.url }, "Its files") : ""),
      ),
    ),
  );
};
